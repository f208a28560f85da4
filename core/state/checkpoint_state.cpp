#include "levin/core/state/checkpoint_state.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/saved_checkpoints.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/state/checkpoint_choice.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/restart_notes.h"
#include "levin/core/state/run_sections.h"

namespace levin {

namespace {

/// The state that all ranks share, with what hooks add.
Checkpoint collect(TrainerState& run, bool weights_only) {
  // An error ends the run within an iteration: once its step is taken, what follows the step is left out.
  if (run.resume.position.step_is_taken) run.sections->begin(run, run.resume.position.place);
  Checkpoint checkpoint;
  run.sections->save(run, checkpoint, weights_only);
  if (run.progress.fitting || run.weights.is_evaluating()) run.weights.add_to(checkpoint, weights_only);
  if (!run.resume.queued_job.empty()) {
    checkpoint.manifest["queued_job"] = Value::Map{{"number", run.resume.queued_job}, {"notes", run.resume.notes->text()}};
  }
  const auto scope = run.hooks.enter(Hook::kOnSaveCheckpoint);
  for (const auto& callback : run.parts.callbacks) callback->on_save_checkpoint(run.trainer, run.module(), checkpoint);
  run.module().on_save_checkpoint(checkpoint);
  return checkpoint;
}

/// Ranks: all, unless the run is failing: then it has the states that ranks gave before, or only that of rank 0.
Checkpoint assemble(TrainerState& run, bool weights_only) {
  Checkpoint checkpoint = collect(run, weights_only);
  // A run that resumes has copied the states of ranks.
  if (weights_only || run.resume.replaying) return checkpoint;
  const std::vector<RankState>& at_end = run.resume.rank_states_at_end;
  if (!run.entry.failing) {
    save_rank_states(gather_rank_states(run), checkpoint);
  } else {
    save_rank_states(at_end.empty() ? std::vector{run.sections->save_own(run)} : at_end, checkpoint);
  }
  return checkpoint;
}

/// From backward on, gradients of earlier batches are mixed with those of a batch that a resumed run repeats.
bool gradients_are_between(const TrainerState& run) {
  const GradientWindow& window = run.accumulation.window;
  const bool keeps_gradients = window.open || !run.module().automatic_optimization();
  return run.resume.position.place == Place::kBatch && window.in_backward && keeps_gradients;
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

/// Monitors of the callbacks that keep best files, read from their states, in the order of the callbacks.
std::vector<std::string> monitors_of(const CallbackList& callbacks) {
  std::vector<std::string> monitors;
  for (const auto& callback : callbacks) {
    if (!callback->saves_state()) continue;
    std::string monitor = SavedCheckpoints::read(callback->state_dict()).monitor;
    if (!monitor.empty()) monitors.push_back(std::move(monitor));
  }
  return monitors;
}

std::filesystem::path chosen_file(const TrainerState& run, const std::string& ckpt_path) {
  const CheckpointChoice choice = read_checkpoint_choice(ckpt_path);
  if (choice.which.empty()) return choice.place;
  if (!choice.place.empty()) return find_checkpoint(checkpoint_folders_of(choice.place), choice.which);
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
  // The run is between two points at which it can be saved: see Place.
  if (run.progress.fitting && run.entry.active && !run.entry.failing && !run.files.is_releasing()) {
    return run.files.promise(file, [&run, file, options] { save_run(run, file, options); });
  }
  if (run.entry.failing) {
    if (!run.is_global_zero()) return;
    const SavingScope saving(run.strategy().ranks());
    // To lose the gradients of a window is better than to count those of one batch twice.
    if (gradients_are_between(run)) run.accumulation.window = {};
    run.files.save(assemble(run, weights_only), file);
    if (!weights_only) note_written(run, file, run.resume.rank_states_at_end.empty() && run.world_size() > 1);
    return;
  }
  // Every rank reaches this because all ranks must call save_checkpoint(), at the same point.
  run.boundaries.meet(BoundaryKind::kCheckpoint);
  // A process that is killed after a checkpoint must not lose rows that the checkpoint counts.
  if (!weights_only) save_rows(run.setup.loggers, run.hooks);
  Checkpoint checkpoint = assemble(run, weights_only);
  // A new file is noted before it is written, as the process may be killed first. One that is replaced is noted afterwards.
  const bool notes = run.resume.notes != nullptr && run.progress.fitting && !weights_only;
  if (notes && !is_there(file)) run.resume.notes->note_checkpoint(file, /*alone=*/false);
  if (options.in_background) {
    // Other ranks do not know whether rank 0 has written a file; once the file exists, it is whole.
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
    // Before any other change of files: the next attempt must not look for a file that has been removed.
    if (notes)
      run.files.then([known = run.resume.notes, file] { known->note_checkpoint(file, /*alone=*/false); }, {{file, true}});
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
    } catch (const IoError& error) {
      answer = format("ckpt_path: {}", error.what());  // such as of a server
    }
  }
  // The folders may differ between hosts, and files may appear while ranks look.
  answer = run.rank_exchange().broadcast_text(
      answer, {"choosing a checkpoint", "all have the same ckpt_path, which was compared before"});
  if (!answer.starts_with(file_prefix)) throw ConfigError(answer);
  return answer.substr(file_prefix.size());
}

std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint) {
  const Value* saved = checkpoint.manifest.find("hyper_parameters");
  const Value* saved_of_data = checkpoint.manifest.find(kDataModuleOptions);
  // Older checkpoints of levin have the options of both in one map.
  if (saved_of_data == nullptr && is_of_levin(checkpoint)) saved_of_data = saved;
  std::vector<std::string> others;
  const Value own = hyperparams_of(parts);
  const auto compare = [&](const std::string& section, const Value* there) {
    for (const auto& [name, value] : own.at(section).as_map()) {
      const Value* other = there == nullptr ? nullptr : there->find(name);
      const bool is_place = name.ends_with("path") || name.ends_with("dir");
      if (other == nullptr || other->is_null() || value.is_null() || is_place) continue;
      // As texts, in which NaN is the same as itself.
      if (to_json(masked(*other)) == to_json(value)) continue;
      others.push_back(format("{}.{}: {} ({} there)", section, name, to_json(value), to_json(*other)));
    }
  };
  compare("model", saved);
  compare("data", saved_of_data);
  return others;
}

Checkpoint module_state(TrainerState& run) {
  Checkpoint checkpoint = collect(run, /*weights_only=*/true);
  for (auto& [name, tensor] : checkpoint.tensors) tensor = tensor.clone();
  return checkpoint;
}

void restore_module(TrainerState& run, const PrecisionPolicy& precision, const Checkpoint& checkpoint) {
  run.hooks.module(Hook::kOnLoadCheckpoint, &Module::on_load_checkpoint, checkpoint);
  // Later code may keep tensors of the module.
  precision.prepare_module(run.module());
  run.sections->load_early(run, checkpoint, LoadStep::kModule);
}

}  // namespace levin
