#include "levin/core/state/checkpoint_state.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <typeinfo>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/console/console.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/state/fit_continuation.h"
#include "levin/core/state/optimizers_at_start.h"
#include "levin/core/state/parameter_state.h"
#include "levin/core/state/rank_state.h"
#include "levin/core/version.h"

namespace levin {

namespace {

/// Of what a run needs to resume. Another one is not read.
constexpr const char* kFormat = "resume_format";
constexpr std::int64_t kFormatVersion = 2;

Value reading_state(const std::optional<BeforeReading>& before_reading) {
  if (!before_reading) return {};
  const ReadingCounters& counters = before_reading->counters;
  return Value::Map{{"global_step", counters.global_step},
                    {"total_batches_done", counters.total_batch_idx},
                    {"batch_idx", counters.batch_idx}};
}

Value loops_state(const TrainerState& run, const PlaceStart& place) {
  const LoopPosition& position = run.resume.position;
  const GradientAccumulation& accumulation = run.accumulation;
  const bool uncounted = position.step_is_taken && run.progress.batch.in_work;
  const bool changed = accumulation.batches != run.options().accumulate_grad_batches;
  return Value::Map{{"place", choice_name(position.place)},
                    {"epochs_done", position.epochs_done},
                    {"loaders_epoch", run.progress.loaders_epoch},
                    {"batches_done", position.batches_done},
                    {"total_batches_done", run.progress.total_batch_idx + (uncounted ? 1 : 0)},
                    {"logging_step", run.progress.logging_step},
                    {"iteration", Value::Map{{"iteration", position.iteration.index},
                                             {"ends_window", position.iteration.ends_window},
                                             {"is_last", position.iteration.is_last},
                                             {"end_epoch", position.iteration.end_epoch},
                                             {"is_finished", position.iteration.is_finished},
                                             {"row_is_left", position.iteration.row_is_left},
                                             {"validation_is_left", position.iteration.validation_is_left}}},
                    {"completed", position.completed},
                    {"stop_agreed", run.stop.agreed() && !position.has_stopped()},
                    {"world_size", run.world_size()},
                    {"batch_size", accumulation.full_batch_size},
                    {"samples_done", position.samples_done ? Value(*position.samples_done) : Value()},
                    {"reading", reading_state(place.before_reading)},
                    {"window_open", accumulation.window.open},
                    {"window_scale", accumulation.scale()},
                    {"accumulate_grad_batches", changed ? Value(accumulation.batches) : Value()}};
}

/// A run that has not come to where it goes on saves what it was given.
void keep_resume_point(const Checkpoint& resumed, Checkpoint& checkpoint) {
  for (const char* key : {"epoch", "global_step", "loops", "logger_rows", "optimizer_states", "lr_schedulers",
                          "trained_parameters", "gradient_scaler"}) {
    if (const Value* value = resumed.manifest.find(key)) checkpoint.manifest[key] = *value;
  }
  constexpr std::string_view kOptimizer = "optimizer_states.";
  std::erase_if(checkpoint.tensors, [&](const auto& entry) { return entry.first.starts_with(kOptimizer); });
  for (const auto& [name, tensor] : resumed.tensors) {
    if (name.starts_with(kOptimizer)) checkpoint.tensors[name] = tensor;
  }
  copy_rank_states(resumed, checkpoint);
}

/// The part of a checkpoint that all ranks have alike. A checkpoint has tensors,
///
///     state_dict.<name>                         weights and buffers
///     current_model_state.<name>                those that are trained, where state_dict has averages
///     optimizer_states.<i>.state.<j>.<field>    of parameter j of optimizer i
///     rng.…, gradients.…, metrics.…             each rank's own: rank_state.cpp
///
/// and a manifest:
///
///     levin_version, resume_format              who wrote it, and what it says of a run's position
///     epoch, global_step                        as Lightning counts them
///     loops                                     the position: loops_state()
///     optimizer_states, lr_schedulers           by optimizer and by scheduler, as PyTorch has them
///     gradient_scaler                           of 16-mixed
///     trained_parameters                        parameter_state.cpp
///     callbacks, datamodule                     their state_dict()
///     module_class, hyper_parameters, datamodule_hyper_parameters
///     data_seed, found_batch_size               what the loaders of a run that resumes are made with
///     logger_rows                               rows written, by logger
///     ranks                                     by rank: rank_state.cpp
///     queued_job                                of a job that goes back into its scheduler's queue: fit_continuation.cpp
///
/// With `weights_only` there is nothing of optimizers, schedulers, the scaler, callbacks, the data module and ranks.
Checkpoint collect(TrainerState& run, bool weights_only) {
  Checkpoint checkpoint;
  Value& manifest = checkpoint.manifest;
  const PlaceStart place = run.place_to_save();
  manifest["levin_version"] = kVersion;
  manifest[kFormat] = kFormatVersion;
  // Behind its end an epoch counts as done, also one that a run which goes on is still in.
  manifest["epoch"] = run.resume.position.place == Place::kStopped ? run.resume.position.epochs_done : run.progress.epoch;
  manifest["global_step"] = run.progress.global_step;
  manifest["loops"] = loops_state(run, place);
  manifest["data_seed"] = run.setup.data_seed;
  if (run.setup.batch_size) manifest["found_batch_size"] = *run.setup.batch_size;
  manifest["logger_rows"] = Value(Value::List{});
  for (const RowCounts& count : place.rows) manifest["logger_rows"].push_back(count.rows);
  const Value hyperparams = hyperparams_of(run.parts);
  manifest["hyper_parameters"] = hyperparams.at("model");
  const Module& module = run.module();
  manifest[kModuleClass] = class_name_of(typeid(module));
  manifest["datamodule_hyper_parameters"] = hyperparams.at("data");
  run.strategy().save_module(run.module(), checkpoint, !run.entry.failing);
  if (run.progress.fitting || run.weights.is_evaluating()) run.weights.add_to(checkpoint, weights_only);
  if (!weights_only) {
    {
      const auto scope = run.hooks.enter(Hook::kStateDict);
      manifest["callbacks"] = states_of(run.parts.callbacks);
      if (run.parts.data != nullptr) manifest["datamodule"] = run.parts.data->state_dict();
    }
    const OptimizersAtStart::Scope groups(run.parts, place.optimizers.get());
    manifest["optimizer_states"] = Value(Value::List{});
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      run.strategy().save_optimizer(*run.parts.optimizers[index], index, checkpoint, !run.entry.failing);
    }
    manifest["trained_parameters"] = parameter_state(run);
    if (Value scaler = run.scaler.state(); !scaler.is_null()) manifest["gradient_scaler"] = std::move(scaler);
    manifest["lr_schedulers"] = place.optimizers ? place.optimizers->schedulers : states_of(run.parts.schedulers);
  }
  if (!run.resume.queued_job.empty()) {
    manifest["queued_job"] = Value::Map{{"number", run.resume.queued_job}, {"notes", run.resume.notes->text()}};
  }
  const auto scope = run.hooks.enter(Hook::kOnSaveCheckpoint);
  for (const auto& callback : run.parts.callbacks) callback->on_save_checkpoint(run.trainer, run.module(), checkpoint);
  run.module().on_save_checkpoint(checkpoint);
  return checkpoint;
}

/// Ranks: all, unless the run is failing: then it has the states that they gave before, or rank 0's alone.
Checkpoint assemble(TrainerState& run, bool weights_only) {
  Checkpoint checkpoint = collect(run, weights_only);
  if (weights_only) return checkpoint;
  const std::vector<RankState>& at_end = run.resume.rank_states_at_end;
  if (run.resume.replaying) {
    keep_resume_point(*run.resume.resumed_from, checkpoint);
  } else if (run.entry.failing) {
    save_rank_states(at_end.empty() ? std::vector{own_rank_state(run)} : at_end, checkpoint);
  } else {
    save_rank_states(gather_rank_states(run), checkpoint);
  }
  return checkpoint;
}

/// From backward on, gradients of earlier batches cannot be told from those of a batch that a resumed run does again.
bool gradients_are_between(const TrainerState& run) {
  const GradientWindow& window = run.accumulation.window;
  const bool keeps_gradients = window.open || !run.module().automatic_optimization();
  return run.resume.position.place == Place::kBatch && window.in_backward && keeps_gradients;
}

std::int64_t count(const Value& values, const char* key) {
  const std::int64_t number = values.at(key).as_int();
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (number < 0 || number > kMost) {
    throw ConfigError(format("ckpt_path: the checkpoint says {}: {}.", key, number));
  }
  return number;
}

std::optional<std::int64_t> optional_count(const Value& values, const char* key) {
  return values.at(key).is_null() ? std::nullopt : std::optional(count(values, key));
}

ResumePoint resume_point(const Value& loops) {
  ResumePoint resume;
  resume.resumes = true;
  const std::string& name = loops.at("place").as_string();
  const auto place = choice_of<Place>(name);
  if (!place)
    throw ConfigError(format("ckpt_path: the checkpoint says that its run was at '{}', which is no such point.", name));
  resume.place = *place;
  resume.batches_done = count(loops, "batches_done");
  const Value& iteration = loops.at("iteration");
  resume.iteration = {.index = count(iteration, "iteration"),
                      .ends_window = iteration.at("ends_window").as_bool(),
                      .is_last = iteration.at("is_last").as_bool(),
                      .end_epoch = iteration.at("end_epoch").as_bool(),
                      .is_finished = iteration.at("is_finished").as_bool(),
                      .row_is_left = iteration.at("row_is_left").as_bool(),
                      .validation_is_left = iteration.at("validation_is_left").as_bool()};
  resume.completed = loops.at("completed").as_bool();
  resume.stop_agreed = loops.at("stop_agreed").as_bool();
  resume.data = {.samples = optional_count(loops, "samples_done"),
                 .world_size = count(loops, "world_size"),
                 .batch_size = count(loops, "batch_size")};
  if (const Value& reading = loops.at("reading"); !reading.is_null()) {
    resume.reading = {count(reading, "global_step"), count(reading, "total_batches_done"), reading.at("batch_idx").as_int()};
  }
  resume.window_open = loops.at("window_open").as_bool();
  resume.window_scale = std::max<std::int64_t>(1, count(loops, "window_scale"));
  resume.accumulate_grad_batches = optional_count(loops, "accumulate_grad_batches");
  return resume;
}

/// A scheduler's state with what PyTorch's says in place of its own: keys are PyTorch's, but not all of them.
Value state_of_torch(Value own, const Value& saved) {
  if (own.is_map() && saved.is_map()) {
    for (auto& [name, value] : own.as_map()) {
      if (const Value* other = saved.find(name)) value = state_of_torch(std::move(value), *other);
    }
    return own;
  }
  const bool has_members =
      own.is_list() && saved.is_list() && own.size() == saved.size() && own.size() > 0 && own.as_list().front().is_map();
  if (has_members) {
    for (std::size_t i = 0; i < own.size(); ++i) own.as_list()[i] = state_of_torch(own.as_list()[i], saved.as_list()[i]);
    return own;
  }
  return saved.is_null() ? own : saved;
}

/// Where "best" and "last" are looked for, newest first: folders of the run of this Trainer, or else of the experiment's.
std::vector<std::filesystem::path> folders_of_experiment(const TrainerState& run) {
  std::vector<std::filesystem::path> folders;
  for (const auto& callback : run.parts.callbacks) {
    if (std::string folder = callback->checkpoint_folder(); !folder.empty()) folders.emplace_back(std::move(folder));
  }
  const RunInfo info{.world_size = run.world_size(), .default_root_dir = run.trainer.default_root_dir()};
  std::vector<std::filesystem::path> runs;
  if (run.entry.loggers_open && run.progress.global_step > 0) runs.push_back(run.trainer.log_dir());
  for (const auto& logger : run.setup.loggers) {
    if (!runs.empty()) break;
    // As Trainer::log_dir(): the first logger that has folders.
    runs = logger->earlier_runs(info);
  }
  if (runs.empty()) runs.push_back(info.default_root_dir);
  for (const std::filesystem::path& folder : runs) folders.push_back(folder / "checkpoints");
  return folders;
}

/// Of the callbacks that keep best files, as their states tell it; the first one's first.
std::vector<std::string> monitors_of(const CallbackList& callbacks) {
  std::vector<std::string> monitors;
  for (const auto& callback : callbacks) {
    if (!callback->saves_state()) continue;
    const Value state = callback->state_dict();
    const Value* const monitor = state.is_map() ? state.find("monitor") : nullptr;
    if (monitor != nullptr && monitor->is_string() && !monitor->as_string().empty()) monitors.push_back(monitor->as_string());
  }
  return monitors;
}

std::filesystem::path chosen_file(const TrainerState& run, const std::string& ckpt_path) {
  const CheckpointChoice choice = read_checkpoint_choice(ckpt_path);
  if (choice.which.empty()) return choice.place;
  if (!choice.place.empty()) return find_checkpoint({choice.place / "checkpoints", choice.place}, choice.which);
  const auto known = run.resume.checkpoint_aliases.find(choice.which);
  if (known != run.resume.checkpoint_aliases.end()) {
    if (choice.which == "best") warn_of_other_monitors(monitors_of(run.parts.callbacks));
    return known->second;
  }
  if (choice.which == "last" && is_there(run.resume.newest_file)) return run.resume.newest_file;
  return find_checkpoint(folders_of_experiment(run), choice.which);
}

/// A whole checkpoint of this run is on the disk. `alone`: without the states of other ranks.
void note_written(TrainerState& run, const std::filesystem::path& file, bool alone) {
  run.resume.newest_file = run.resume.good_file = file;
  run.resume.newest_step = run.progress.global_step;
  if (run.resume.notes != nullptr && run.progress.fitting) run.resume.notes->note_checkpoint(file, alone);
}

}  // namespace

void save_run(TrainerState& run, const std::filesystem::path& file, SaveOptions options) {
  const ProfiledAction action(run.hooks.profiler(), "save_checkpoint");
  const bool weights_only = options.weights_only;
  if (run.parts.module == nullptr) {
    throw MisuseError("save_checkpoint needs a module: call it inside or after fit, validate, test or predict.");
  }
  // Between two points at which a run can be saved: see Place.
  if (run.progress.fitting && run.entry.active && !run.entry.failing && !run.files.is_releasing()) {
    return run.files.promise(file, [&run, file, options] { save_run(run, file, options); });
  }
  if (run.entry.failing) {
    if (!run.is_global_zero()) return;
    // Rather without the gradients of a window than with those of one batch twice.
    if (gradients_are_between(run)) run.accumulation.window = {};
    run.files.save(assemble(run, weights_only), file);
    if (!weights_only) note_written(run, file, run.resume.rank_states_at_end.empty() && run.world_size() > 1);
    return;
  }
  // Every rank reaches this because save_checkpoint() is for all ranks to call, at one place.
  run.boundaries.meet(BoundaryKind::kCheckpoint);
  // A process that is killed after a checkpoint must not take rows with it that the checkpoint counts.
  if (!weights_only) save_rows(run.setup.loggers, run.hooks);
  Checkpoint checkpoint = assemble(run, weights_only);
  // Noted before it is written, as the process may be killed too early. One that is replaced counts by what it holds now.
  const bool notes = run.resume.notes != nullptr && run.progress.fitting && !weights_only;
  if (notes && !is_there(file)) run.resume.notes->note_checkpoint(file, /*alone=*/false);
  if (options.in_background) {
    // Whether rank 0 has written a file is not known elsewhere; once it is there, it is whole.
    if (!run.is_global_zero() && is_there(run.resume.begun_file)) {
      run.resume.newest_file = run.resume.begun_file;
      run.resume.newest_step = run.resume.begun_step;
    }
    if (run.is_global_zero()) run.files.write(std::move(checkpoint), file);
    if (weights_only) return;
    if (!run.is_global_zero()) {
      run.resume.begun_file = file;
      run.resume.begun_step = run.progress.global_step;
      return;
    }
    // Before anything else happens to files: an attempt after this one must not look for one that is gone.
    if (notes)
      run.files.then([kept = run.resume.notes, file] { kept->note_checkpoint(file, /*alone=*/false); }, {{file, true}});
    run.files.when_done([&run, file, step = run.progress.global_step] {
      run.resume.newest_file = run.resume.good_file = file;
      run.resume.newest_step = step;
    });
    return;
  }
  std::string problem;
  if (run.is_global_zero()) {
    try {
      run.files.save(std::move(checkpoint), file);
    } catch (const IoError& error) {
      problem = error.what();
    }
  }
  problem = run.rank_exchange().broadcast_text(problem, {"writing a checkpoint", "all have met for this checkpoint before"});
  if (!problem.empty()) throw IoError(problem);
  if (!weights_only) note_written(run, file, /*alone=*/false);
}

void save_requested(TrainerState& run) {
  if (!run.files.has_promised()) return;
  const auto scope = run.hooks.enter(Hook::kOnSaveCheckpoint);
  run.files.release();
}

std::filesystem::path resolve_checkpoint(TrainerState& run, const std::string& ckpt_path) {
  const std::string file_prefix = "file ";
  std::string answer;
  if (run.is_global_zero()) {
    try {
      run.files.wait();
      answer = file_prefix + chosen_file(run, ckpt_path).string();
    } catch (const ConfigError& error) {
      answer = error.message();
    }
  }
  // The folders that decide may differ between hosts, and files may come while ranks look.
  answer = run.rank_exchange().broadcast_text(
      answer, {"choosing a checkpoint", "all have the same ckpt_path, which was compared before"});
  if (!answer.starts_with(file_prefix)) throw ConfigError(answer);
  return answer.substr(file_prefix.size());
}

std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint) {
  const Value* saved = checkpoint.manifest.find("hyper_parameters");
  const Value* saved_of_data = checkpoint.manifest.find("datamodule_hyper_parameters");
  // Older checkpoints of levin have those of both in one map.
  if (saved_of_data == nullptr && is_of_levin(checkpoint)) saved_of_data = saved;
  std::vector<std::string> others;
  const Value own = hyperparams_of(parts);
  const auto compare = [&](const std::string& section, const Value* there) {
    for (const auto& [name, value] : own.at(section).as_map()) {
      const Value* other = there == nullptr ? nullptr : there->find(name);
      const bool is_place = name.ends_with("path") || name.ends_with("dir");
      if (other == nullptr || masked(*other) == value || other->is_null() || value.is_null() || is_place) continue;
      others.push_back(format("{}.{}: {} ({} there)", section, name, to_json(value), to_json(*other)));
    }
  };
  compare("model", saved);
  compare("data", saved_of_data);
  return others;
}

Checkpoint module_state(TrainerState& run) {
  Checkpoint checkpoint = collect(run, /*weights_only=*/true);
  if (run.parts.data != nullptr) checkpoint.manifest["datamodule"] = run.parts.data->state_dict();
  for (auto& [name, tensor] : checkpoint.tensors) tensor = tensor.clone();
  return checkpoint;
}

void restore_data(TrainerState& run, const Checkpoint& checkpoint) {
  const Value* const saved = checkpoint.manifest.find("datamodule");
  if (saved == nullptr || run.parts.data == nullptr) return;
  const auto scope = run.hooks.enter(Hook::kLoadStateDict);
  run.parts.data->load_state_dict(*saved);
}

void restore_module(TrainerState& run, const PrecisionPolicy& precision, const Checkpoint& checkpoint) {
  run.hooks.module(Hook::kOnLoadCheckpoint, &Module::on_load_checkpoint, checkpoint);
  // What follows may keep tensors of it.
  precision.prepare_module(run.module());
  run.strategy().load_module(run.module(), checkpoint);
  const auto scope = run.hooks.enter(Hook::kLoadStateDict);
  run.hooks.callbacks(Hook::kOnLoadCheckpoint, &Callback::on_load_checkpoint, checkpoint);
  // What callbacks remember is of training: an evaluation neither needs it nor may be warned about it.
  const Value* states = run.progress.fitting ? checkpoint.manifest.find("callbacks") : nullptr;
  if (states == nullptr || !states->is_map()) return;
  std::set<std::string> left;
  for (const auto& [key, state] : states->as_map()) left.insert(key);
  for (const auto& callback : run.parts.callbacks) {
    const Value* const saved = states->find(callback->state_key());
    if (saved == nullptr) continue;
    callback->load_state_dict(*saved);
    left.erase(callback->state_key());
  }
  if (left.empty()) return;
  rank_zero_warn(
      format("The checkpoint has the state of callbacks that this run does not have, or has with other options: {}. It is left "
             "out; add them to go on as the run that saved it.",
             join(left)));
}

ResumePoint restore_training(TrainerState& run, const Checkpoint& checkpoint) {
  const Value& manifest = checkpoint.manifest;
  const auto check_number = [](const Value& saved, const char* what, std::size_t own) {
    if (saved.size() == own) return;
    throw ConfigError(format("ckpt_path: the checkpoint has {} {}, the module {}.", saved.size(), what, own));
  };
  check_number(manifest.at("optimizer_states"), "optimizers", run.parts.optimizers.size());
  const auto parameters = std::make_shared<ParameterResume>(run, checkpoint);
  const Value& schedulers = manifest.at("lr_schedulers");
  check_number(schedulers, "learning-rate schedulers", run.parts.schedulers.size());
  for (std::size_t index = 0; index < run.parts.schedulers.size(); ++index) {
    LrScheduler& scheduler = *run.parts.schedulers[index].scheduler;
    const Value& saved = schedulers.as_list()[index];
    scheduler.load_state_dict(is_of_levin(checkpoint) ? saved : state_of_torch(scheduler.state_dict(), saved));
  }
  if (const Value* scaler = manifest.find("gradient_scaler")) run.scaler.load_state(*scaler);
  parameters->restore(run, ParameterResume::kTrainStart);
  ResumePoint resume = resume_point(manifest.at("loops"));
  resume.parameters = parameters;
  resume.rank = load_rank_state(run, checkpoint, resume.window_open);
  Progress& progress = run.progress;
  progress.epoch = count(manifest.at("loops"), "epochs_done");
  // Lightning's files have none.
  progress.loaders_epoch = manifest.at("loops").contains("loaders_epoch") ? count(manifest.at("loops"), "loaders_epoch") : 0;
  progress.global_step = count(manifest, "global_step");
  run.resume.resumed_step = progress.global_step;
  progress.logging_step = count(manifest.at("loops"), "logging_step");
  progress.total_batch_idx = count(manifest.at("loops"), "total_batches_done");
  run.resume.position.epochs_done = progress.epoch;
  return resume;
}

void require_this_format(const Checkpoint& checkpoint) {
  const Value* const format_version = checkpoint.manifest.find(kFormat);
  if (!is_of_levin(checkpoint) || (format_version != nullptr && *format_version == Value(kFormatVersion))) return;
  throw ConfigError(format(
      "ckpt_path: the checkpoint was written by levin {}, which stored the position of a run in another format than this "
      "levin ({}). It can be tested and validated. To train from its weights, give it as init_from instead.",
      checkpoint.manifest.at("levin_version").as_string(), kVersion));
}

bool is_at(const Checkpoint& checkpoint, Place place) {
  const Value* loops = checkpoint.manifest.find("loops");
  return loops != nullptr && loops->at("place") == Value(choice_name(place));
}

std::int64_t logging_step_of(const Checkpoint& checkpoint) {
  const Value* loops = checkpoint.manifest.find("loops");
  if (loops == nullptr) return 0;
  // The row of a validation that is done has the step that is under way.
  const bool has_row = is_at(checkpoint, Place::kValidationEnd) && !loops->at("iteration").at("is_finished").as_bool();
  return loops->at("logging_step").as_int() + (has_row ? 1 : 0);
}

}  // namespace levin
