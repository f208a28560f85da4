#include "levin/callbacks/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/callbacks/checkpoint_files.h"
#include "levin/callbacks/checkpoint_name.h"
#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/top_k_checkpoints.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/shared_interval.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/background_files.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/logger.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// True when a metric was measured between two checks.
bool was_measured(std::optional<double> before, std::optional<double> after) {
  if (!after) return false;
  return !before || (*before != *after && !(std::isnan(*before) && std::isnan(*after)));
}

std::string position(const Trainer& trainer) {
  return format("Epoch {}, global step {}", trainer.current_epoch(), trainer.global_step());
}

}  // namespace

SaveLast OptionType<SaveLast>::read(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_string() && value.as_string() == "link") return SaveLast::kLink;
  detail::throw_wrong_type(value, name());
}

Value OptionType<SaveLast>::write(const SaveLast& save_last) {
  return save_last.link() ? Value("link") : Value(save_last.enabled());
}

Value OptionType<SaveLast>::schema() {
  return detail::any_of({detail::schema_of_type("boolean"), Value(Value::Map{{"const", "link"}})});
}

LEVIN_REGISTER_CALLBACK(ModelCheckpoint, "Save the best or the newest checkpoints");

void ModelCheckpointOptions::declare(OptionList<ModelCheckpointOptions>& options) {
  using O = ModelCheckpointOptions;
  options.add(&O::dirpath, "Folder to save in, or s3://BUCKET/FOLDER; null: checkpoints/ in the logger's folder");
  options.add(&O::filename, "Name without extension, such as '{epoch}-{val_loss:.2f}'; null or empty: '{epoch}-{step}'");
  options.add(&O::monitor, "Metric that says which checkpoints are best, or step or epoch; null: the newest is").not_empty();
  options.add(&O::verbose, "Say what is saved and why");
  options.add(&O::save_last, "Keep the newest state as last.ckpt too; 'link': as a symbolic link, where there are links");
  options.add(&O::save_top_k, "How many of the best checkpoints stay; -1: all, 0: none").min(-1).instead("-1 keeps all");
  options.add(&O::save_on_exception, "Rank 0 also saves when training ends with an error; null: only when a signal ends it");
  options.add(&O::save_weights_only, "Leave out optimizers, schedulers and callbacks");
  options.add(&O::mode, "Whether the metric should become small or large");
  options.add(&O::auto_insert_metric_name, "'{epoch}' becomes 'epoch=3', not '3'");
  options.add(&O::every_n_train_steps, "Optimizer steps between checkpoints; 0: not by steps")
      .min(0)
      .instead("0 saves none by steps");
  options.add(&O::train_time_interval, "Time between checkpoints, DD:HH:MM:SS");
  options.add(&O::every_n_epochs, "Epochs between checkpoints; 0: not by epochs, but last.ckpt")
      .min(0)
      .instead("0 saves none by epochs");
  options.add(&O::save_on_train_epoch_end,
              "Save when a training epoch ends; false: when validation ends; null: by the validation interval");
  options.add(&O::enable_version_counter, "Add -v1, -v2, … to a name that is taken; false: replace the file");
  options.add(&O::async, "Write in the background, from a copy; false: the step waits for the disk");
  options.rule({"every_n_train_steps", "every_n_epochs", "train_time_interval"}, [](const O& saving) {
    const int triggers = (saving.every_n_train_steps.value_or(0) > 0) + (saving.every_n_epochs.value_or(0) > 0) +
                         saving.train_time_interval.has_value();
    return triggers > 1
               ? "every_n_train_steps, every_n_epochs and train_time_interval exclude each other; use one callback for each"
               : "";
  });
  options.rule({"dirpath"},
               [](const O& saving) { return saving.dirpath ? detail::problem_of_folder(saving.dirpath->native()) : ""; });
  options.rule({"save_top_k"}, [](const O& saving) {
    return !saving.monitor && saving.save_top_k > 1
               ? "without a monitor nothing says which checkpoints are best: set 'monitor', or save_top_k to -1, 0 or 1; "
                 "with monitor: step and mode: max the newest remain"
               : "";
  });
  options.rule({"filename"}, [](const O& saving) -> std::string {
    if (!saving.filename || saving.filename->empty()) return "";
    // Reads the pattern in any case: one that is not understood is an error. What the fields become are numbers.
    const std::string name = checkpoint_name(*saving.filename, saving.auto_insert_metric_name, 0, 0, {});
    if (!leaves_folder(name) || (saving.dirpath && saving.dirpath->is_absolute())) return "";
    return "filename is " + quoted_text(*saving.filename) +
           ", which leads out of the folder for checkpoints: say with dirpath where to save, or give an absolute dirpath that "
           "the name starts from";
  });
}

ModelCheckpoint::ModelCheckpoint(Options options)
    : WithOptions("ModelCheckpoint", std::move(options)),
      top_k_(std::make_unique<TopKCheckpoints>(options_.save_top_k, options_.mode == MonitorMode::kMin)) {
  const bool no_trigger = !options_.every_n_train_steps && !options_.every_n_epochs && !options_.train_time_interval;
  every_n_train_steps_ = options_.every_n_train_steps.value_or(0);
  every_n_epochs_ = no_trigger ? 1 : options_.every_n_epochs.value_or(0);
  if (options_.train_time_interval) {
    interval_ = std::make_unique<SharedInterval>(options_.train_time_interval->count());
  }
}

ModelCheckpoint::ModelCheckpoint(ModelCheckpoint&& other) noexcept = default;
ModelCheckpoint::~ModelCheckpoint() = default;

std::string ModelCheckpoint::kth_best_model_path() const { return top_k_->kth_file(); }
double ModelCheckpoint::kth_value() const { return top_k_->kth_value(); }
const std::vector<std::pair<std::string, double>>& ModelCheckpoint::best_k_models() const { return top_k_->files(); }

std::string ModelCheckpoint::state_key() const {
  return detail::state_key_of(
      "ModelCheckpoint", {{"monitor", options_.monitor ? Value(*options_.monitor) : Value()},
                          {"mode", choice_name(options_.mode)},
                          {"every_n_train_steps", every_n_train_steps_},
                          {"every_n_epochs", every_n_epochs_},
                          {"train_time_interval", OptionType<std::optional<Duration>>::write(options_.train_time_interval)}});
}

std::string ModelCheckpoint::checkpoint_folder() const {
  return options_.dirpath ? detail::absolute_folder(*options_.dirpath) : "";
}

// ---- State, in a checkpoint ------------------------------------------------------------------------------------------------

Value ModelCheckpoint::state_dict() const {
  const Value own = write_options(state_);
  Value state(Value::Map{});
  const auto add = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) state[name] = own.at(name);
  };
  // In Lightning's order.
  state["monitor"] = OptionType<std::optional<std::string>>::write(options_.monitor);
  add({"best_model_score", "best_model_path", "current_score", "dirpath"});
  Value& files = state["best_k_models"] = Value(Value::Map{});
  for (const auto& [file, score] : top_k_->files()) files[file] = score;
  state["kth_best_model_path"] = top_k_->kth_file();
  state["kth_value"] = top_k_->kth_value();
  add({"last_model_path", "saved_as"});
  state["decisions"] = write_options(decisions_);
  return state;
}

void ModelCheckpoint::load_state_dict(const Value& state) {
  State saved;
  detail::read_state(state, saved);
  if (const Value* decisions = state.find("decisions")) {
    decisions_ = {};
    detail::read_state(*decisions, decisions_);
    resumed_ = decisions_.triggered_step >= 0;  // else training had not begun
  }
  state_.best_model_path = saved.best_model_path;
  if (saved.dirpath != state_.dirpath) {
    // Each run has its own folder, so that this is so whenever one resumes another.
    rank_zero_info(
        format("ModelCheckpoint: the files of the previous run stay in {}, and only the best of them still counts; "
               "this run saves in {}.",
               as_typed(saved.dirpath), as_typed(state_.dirpath)));
    decisions_.evicted.clear();
    decisions_.unscored.clear();
    return;
  }
  resumed_file_ = std::exchange(saved.saved_as, "");
  state_ = std::move(saved);
  std::vector<std::pair<std::string, double>> files;
  if (const Value* kept = state.find("best_k_models")) {
    for (const auto& [file, score] : kept->as_map()) files.emplace_back(file, score.as_double());
  }
  for (std::string& file : top_k_->restore(std::move(files))) decisions_.evicted.push_back(std::move(file));
  while (options_.save_top_k >= 0 && decisions_.unscored.size() > static_cast<std::size_t>(options_.save_top_k)) {
    decisions_.evicted.push_back(decisions_.unscored.front());
    decisions_.unscored.erase(decisions_.unscored.begin());
  }
  // It was written when the run ended that resumes here.
  if (!resumed_file_.empty() && resumed_file_ == decisions_.exceptional_file) decisions_.evicted.push_back(resumed_file_);
}

// ---- Where and when ---------------------------------------------------------------------------------------------------------

void ModelCheckpoint::setup(Trainer& trainer, Module&, Stage stage) {
  if (stage != Stage::kTrain) return;
  if (options_.monitor) detail::warn_of_mode("ModelCheckpoint", *options_.monitor, options_.mode);
  const bool has_trigger = every_n_train_steps_ > 0 || every_n_epochs_ > 0 || interval_;
  if (!has_trigger && options_.save_top_k != 0 && !options_.save_last.enabled()) {
    rank_zero_warn(
        "ModelCheckpoint saves nothing: every_n_train_steps and every_n_epochs are 0 or not set, and so is "
        "train_time_interval. "
        "Leave them out for a checkpoint each epoch, or remove the callback.");
  }
  for (const ModelCheckpoint* other : trainer.callbacks_of<ModelCheckpoint>()) {
    if (other != this) detail::check_files(options_, other->options_);
  }
  std::string folder;
  if (trainer.is_global_zero()) {
    folder = detail::absolute_folder(options_.dirpath.value_or(trainer.log_dir() / "checkpoints"));
    std::error_code missing;
    // An address is asked for its files in any case: with wrong credentials the run ends here.
    const bool has_files = is_remote(folder)
                               ? !newest_files_at(folder, kFileExtension).empty()
                               : std::filesystem::directory_iterator(folder, missing) != std::filesystem::directory_iterator();
    if (options_.save_top_k != 0 && !trainer.options().fast_dev_run && has_files) {
      rank_zero_warn(format("Checkpoint folder {} exists and is not empty.", folder));
    }
  }
  state_.dirpath = RankExchange(trainer.strategy().control_group())
                       .broadcast_text(folder, {"ModelCheckpoint: folder", "all have the same callbacks"});
}

bool ModelCheckpoint::off(const Trainer& trainer) const {
  return trainer.options().fast_dev_run || !trainer.fitting() || trainer.sanity_checking();
}

std::optional<double> ModelCheckpoint::score(Trainer& trainer, bool now) const {
  const std::string& name = *options_.monitor;
  if (detail::is_counter(name)) return static_cast<double>(name == "step" ? trainer.global_step() : trainer.current_epoch());
  return now ? trainer.monitored_now(name) : trainer.monitored(name);
}

void ModelCheckpoint::on_train_start(Trainer& trainer, Module&) {
  if (interval_) interval_->start(steady_seconds());
  newest_file_step_ = -1;
  if (std::exchange(resumed_, false)) {
    save_what_is_missing(trainer);
  } else {
    // Nothing has been trained that needs saving.
    decisions_.top_k_step = decisions_.last_saved_step = decisions_.triggered_step = trainer.global_step();
    decisions_.waits_for_validation = decisions_.measured_in_validation = decisions_.validation_has_run = false;
  }
  publish_aliases(trainer);
}

bool ModelCheckpoint::step_is_due(Trainer& trainer) {
  bool due = every_n_train_steps_ > 0 && trainer.global_step() % every_n_train_steps_ == 0;
  if (interval_ && interval_->batch_done()) {
    const double now = steady_seconds();
    const auto proposal = RankExchange(trainer.strategy().control_group())
                              .broadcast_value(interval_->propose(now), {"ModelCheckpoint: train_time_interval",
                                                                         "rank 0 has broadcast in which batch they ask next"});
    due = interval_->accept(proposal, now);
  }
  // While gradients accumulate, the step stays the same over several batches.
  if (!due || trainer.global_step() == decisions_.triggered_step) return false;
  decisions_.triggered_step = trainer.global_step();
  return true;
}

std::string ModelCheckpoint::next_save(const Trainer& trainer) const {
  const bool keeps_any = options_.save_top_k != 0 || options_.save_last.enabled();
  if (off(trainer) || !keeps_any) return "";
  if (every_n_train_steps_ > 0) {
    return "in " +
           counted(static_cast<std::size_t>(every_n_train_steps_ - trainer.global_step() % every_n_train_steps_), "step");
  }
  if (interval_) return "in " + duration_text(interval_->left(steady_seconds()));
  if (every_n_epochs_ < 1) return "";
  // Without the epoch's number: a screen counts from 1, and files from 0.
  const auto more = static_cast<std::size_t>(every_n_epochs_ - 1 - trainer.current_epoch() % every_n_epochs_);
  return more == 0 ? "after this epoch" : format("after {}", counted(more + 1, "epoch"));
}

void ModelCheckpoint::on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
  if (every_epoch_trigger() || off(trainer) || !step_is_due(trainer)) return;
  save(trainer, Occasion::kBatch);
}

void ModelCheckpoint::on_validation_start(Trainer& trainer, Module&) {
  if (!options_.monitor || off(trainer) || decisions_.measured_in_validation) return;
  decisions_.score_before_validation = score(trainer, /*now=*/true);
}

void ModelCheckpoint::on_validation_end(Trainer& trainer, Module&) {
  const bool early = detail::before_training(trainer);
  if (early && options_.monitor && !detail::is_counter(*options_.monitor))
    detail::warn_of_monitor(trainer, "ModelCheckpoint", *options_.monitor);
  if (off(trainer)) return;
  const std::optional<double> value = options_.monitor ? score(trainer) : std::nullopt;
  if (was_measured(decisions_.score_before_validation, value)) decisions_.measured_in_validation = true;
  if (early) return;
  decisions_.validation_has_run = true;
  decisions_.validated_step = trainer.global_step();
  if (!decisions_.unscored.empty() && !value) report_missing_monitor(trainer);
  if (value) score_saved(trainer, *value);
  if (decisions_.waits_for_validation) {
    save(trainer, Occasion::kEpoch);
  } else if (!detail::looks_at_epoch_end(trainer, options_.save_on_train_epoch_end)) {
    epoch_ended(trainer);
  }
}

void ModelCheckpoint::on_train_epoch_end(Trainer& trainer, Module&) {
  if (off(trainer)) return;
  // A metric of the training epoch has its value now.
  if (!decisions_.unscored.empty() && !decisions_.measured_in_validation) {
    if (const auto value = score(trainer)) score_saved(trainer, *value);
  }
  if (detail::looks_at_epoch_end(trainer, options_.save_on_train_epoch_end)) epoch_ended(trainer);
}

void ModelCheckpoint::epoch_ended(Trainer& trainer) {
  if (!every_epoch_trigger()) return;
  if (every_n_epochs_ >= 1 && (trainer.current_epoch() + 1) % every_n_epochs_ == 0) {
    save(trainer, Occasion::kEpoch);
  } else {
    save_last(trainer);
  }
}

void ModelCheckpoint::on_train_end(Trainer& trainer, Module&) {
  if (off(trainer)) return;
  if (!decisions_.unscored.empty()) {
    rank_zero_info(format("ModelCheckpoint: training ended before '{}' was measured for {}, which stay without a score.",
                          *options_.monitor, join(decisions_.unscored)));
  }
  save_last(trainer);
}

void ModelCheckpoint::on_fit_end(Trainer& trainer, Module&) {
  // A run that resumes at its very end has nothing to train, but maybe a file to write.
  if (off(trainer) || !std::exchange(resumed_, false)) return;
  save_what_is_missing(trainer);
  save_last(trainer);
}

void ModelCheckpoint::save_what_is_missing(Trainer& trainer) {
  const std::int64_t step = trainer.global_step();
  const auto is_of_step = [step](const std::string& file) {
    try {
      return Checkpoint::load_manifest(file).at("global_step").as_int() == step;
    } catch (const Error&) {
      return false;
    }
  };
  struct Missing {
    bool best = false, last = false;
  } missing;
  if (trainer.is_global_zero()) {
    missing.best = decisions_.top_k_step == step && !resumed_file_.empty() && !is_there(resumed_file_);
    missing.last = options_.save_last.enabled() && decisions_.last_saved_step == step && !is_of_step(state_.last_model_path);
  }
  missing = RankExchange(trainer.strategy().control_group())
                .broadcast_value(missing, {"ModelCheckpoint: files of the run before", "all resume with the same state"});
  if (missing.best) write(trainer, resumed_file_);
  if (!missing.last) return;
  decisions_.last_saved_step = -1;
  save_last(trainer);
}

// ---- What -------------------------------------------------------------------------------------------------------------------

void ModelCheckpoint::save(Trainer& trainer, Occasion occasion) {
  // Before the first file, whose state goes with it: a run that resumes from that file writes last.ckpt and no second one.
  if (options_.save_last.enabled() && state_.last_model_path.empty())
    state_.last_model_path = choose_file(trainer, kNameLast, "");
  save_best(trainer, occasion);
  save_last(trainer);
}

void ModelCheckpoint::save_best(Trainer& trainer, Occasion occasion) {
  if (options_.save_top_k == 0 || decisions_.top_k_step == trainer.global_step()) return;
  if (!options_.monitor) return save_newest(trainer);
  const bool stale = decisions_.measured_in_validation && decisions_.validated_step != trainer.global_step();
  const std::optional<double> value = score(trainer, /*now=*/occasion == Occasion::kBatch && !stale);
  if (occasion == Occasion::kBatch && (stale || !value)) return save_unscored(trainer);
  decisions_.waits_for_validation = stale;
  if (decisions_.waits_for_validation) return;
  if (!value) return report_missing_monitor(trainer);
  save_monitored(trainer, *value);
}

void ModelCheckpoint::report_missing_monitor(Trainer& trainer) {
  const std::string problem = format("ModelCheckpoint monitors '{}', which no rank has logged.{}", *options_.monitor,
                                     detail::other_monitors(*options_.monitor, trainer.callback_metrics()));
  if (decisions_.validation_has_run) throw of_all_ranks(MisuseError(problem));
  Console::instance().warn_once(problem + " Nothing was saved.", "monitor " + *options_.monitor, Speaker::kRun);
}

void ModelCheckpoint::save_monitored(Trainer& trainer, double score) {
  decisions_.top_k_step = trainer.global_step();
  if (!top_k_->accepts(score)) {
    if (options_.verbose) {
      rank_zero_info(format("{}: '{}' was not in top {}", position(trainer), *options_.monitor, options_.save_top_k));
    }
    return;
  }
  const std::string file = choose_file(trainer, current_name(trainer), top_k_->next_evicted().value_or(""));
  add_ranked(trainer, file, score);
  write(trainer, file);
}

void ModelCheckpoint::add_ranked(const Trainer& trainer, const std::string& file, double score) {
  if (const auto evicted = top_k_->next_evicted()) decisions_.evicted.push_back(*evicted);
  top_k_->add(file, score);
  state_.current_score = std::isnan(score) ? detail::worst_score(options_.mode) : score;
  std::tie(state_.best_model_path, state_.best_model_score) = *top_k_->best();
  if (!options_.verbose) return;
  const auto text_of = [](double score) { return detail::score_text(score, 0.0001); };
  rank_zero_info(format("{}: '{}' reached {} (best {}), saving model to '{}' as top {}", position(trainer), *options_.monitor,
                        text_of(*state_.current_score), text_of(*state_.best_model_score), file,
                        options_.save_top_k == -1 ? static_cast<std::int64_t>(top_k_->files().size()) : options_.save_top_k));
}

void ModelCheckpoint::save_unscored(Trainer& trainer) {
  decisions_.top_k_step = trainer.global_step();
  const bool full = options_.save_top_k > 0 && decisions_.unscored.size() == static_cast<std::size_t>(options_.save_top_k);
  if (full) {
    decisions_.evicted.push_back(decisions_.unscored.front());
    decisions_.unscored.erase(decisions_.unscored.begin());
  }
  const std::string file = choose_file(trainer, current_name(trainer), full ? decisions_.evicted.back() : "");
  decisions_.unscored.push_back(file);
  write(trainer, file);
}

void ModelCheckpoint::score_saved(Trainer& trainer, double score) {
  if (decisions_.unscored.empty()) return;
  std::vector<std::string> files = std::exchange(decisions_.unscored, {});
  std::reverse(files.begin(), files.end());
  for (const std::string& file : files) {
    if (top_k_->accepts(score)) {
      add_ranked(trainer, file, score);
    } else {
      decisions_.evicted.push_back(file);
    }
  }
  publish_aliases(trainer);
  remove_evicted(trainer);
}

void ModelCheckpoint::save_newest(Trainer& trainer) {
  decisions_.top_k_step = trainer.global_step();
  const std::string file = choose_file(trainer, current_name(trainer), state_.best_model_path);
  const std::string previous = std::exchange(state_.best_model_path, file);
  if (options_.save_top_k == 1 && !previous.empty()) decisions_.evicted.push_back(previous);
  write(trainer, file);
}

void ModelCheckpoint::save_last(Trainer& trainer) {
  if (options_.save_last.enabled() && decisions_.last_saved_step != trainer.global_step()) {
    const std::string file = choose_file(trainer, kNameLast, state_.last_model_path);
    decisions_.last_saved_step = trainer.global_step();
    write_last(trainer, file);
  }
  // Last, so that a run killed at any instant leaves the old files or the new ones, and last.ckpt never points to nothing.
  remove_evicted(trainer);
}

void ModelCheckpoint::write_last(Trainer& trainer, const std::string& file) {
  const std::string previous = std::exchange(state_.last_model_path, file);
  if (!previous.empty() && previous != file) decisions_.evicted.push_back(previous);
  if (options_.save_last.link() && !is_remote(file) && newest_file_step_ == trainer.global_step()) {
    if (trainer.is_global_zero()) {
      trainer.checkpoint_files().then([target = newest_file_, file] { detail::link_checkpoint(target, file); }, {{file, true}});
    }
    publish_aliases(trainer);
  } else {
    const std::string newest = newest_file_;
    const std::int64_t newest_step = newest_file_step_;
    // All files of a point say the same: of the best one, if there is one, a reader wants the score.
    const std::string saved_as = newest_step == trainer.global_step() ? state_.saved_as : file;
    write(trainer, file);
    std::tie(newest_file_, newest_file_step_, state_.saved_as) = std::tie(newest, newest_step, saved_as);
  }
}

void ModelCheckpoint::write(Trainer& trainer, const std::string& file) {
  state_.saved_as = file;
  if (options_.async) {
    trainer.save_checkpoint_in_background(file, options_.save_weights_only);
  } else {
    trainer.save_checkpoint(file, options_.save_weights_only);
  }
  newest_file_ = file;
  newest_file_step_ = trainer.global_step();
  if (trainer.is_global_zero()) {
    trainer.checkpoint_files().when_done([&trainer, file] {
      for (const auto& logger : trainer.loggers()) logger->after_save_checkpoint(file);
    });
  }
  publish_aliases(trainer);
}

bool ModelCheckpoint::saves_after(const Trainer& trainer, const std::exception& error) const {
  if (options_.save_on_exception) return *options_.save_on_exception;
  const auto* const interrupted = dynamic_cast<const Interrupted*>(&error);
  const bool keeps_any = options_.save_top_k != 0 || options_.save_last.enabled();
  if (interrupted == nullptr || !keeps_any || trainer.callback<ModelCheckpoint>() != this) return false;
  // What goes back into a scheduler's queue is saved for that.
  return !trainer.options().process.requeues_on(interrupted->signal()) || !trainer.strategy().ranks().batch_job();
}

void ModelCheckpoint::on_exception(Trainer& trainer, Module&, const std::exception& error) {
  const std::int64_t step = trainer.global_step();
  if (!saves_after(trainer, error) || !trainer.is_global_zero() || state_.dirpath.empty() || off(trainer)) return;
  if (step == 0 || newest_file_step_ == step || decisions_.last_saved_step == step) return;
  try {
    // Nothing counts as decided or saved: a run that resumes from here does what this one would have done next.
    if (options_.save_last.enabled() && state_.last_model_path.empty())
      state_.last_model_path = free_file(trainer, kNameLast, "");
    const std::string file = decisions_.exceptional_file = free_file(trainer, current_name(trainer), "");
    write(trainer, file);
    if (options_.save_last.enabled()) write_last(trainer, free_file(trainer, kNameLast, state_.last_model_path));
    const bool is_stop = dynamic_cast<const Interrupted*>(&error) != nullptr;
    rank_zero_info(is_stop ? format("{} Saved its state as {}", error.what(), as_typed(file))
                           : format("Training ended with an error ({}); saved its state as {}", error.what(), as_typed(file)));
    // A stop is not an error, and gets one line.
    if (is_stop && Console::instance().shows(LogLevel::kInfo, Speaker::kRun))
      Console::instance().mark_reported(std::current_exception());
  } catch (const std::exception& save_error) {
    // The error that ended the training is what matters; it leaves the Trainer after this hook.
    Console::instance().error(format("ModelCheckpoint: the state could not be saved: {}", save_error.what()));
  }
}

// ---- Files ------------------------------------------------------------------------------------------------------------------

std::string ModelCheckpoint::current_name(const Trainer& trainer) const {
  return checkpoint_name(detail::name_of_files(options_), options_.auto_insert_metric_name, trainer.current_epoch(),
                         trainer.global_step(), trainer.callback_metrics());
}

std::string ModelCheckpoint::free_file(Trainer& trainer, const std::string& name, const std::string& may_replace) const {
  const std::filesystem::path folder(state_.dirpath);
  std::string file = (folder / (name + kFileExtension)).string();
  if (!options_.enable_version_counter) return file;
  const BackgroundFiles& files = trainer.checkpoint_files();
  for (int version = 1; files.is_there(file) && file != may_replace && file != decisions_.exceptional_file; ++version) {
    file = (folder / format("{}-v{}{}", name, version, kFileExtension)).string();
  }
  return file;
}

std::string ModelCheckpoint::choose_file(Trainer& trainer, const std::string& name, const std::string& may_replace) const {
  return RankExchange(trainer.strategy().control_group())
      .broadcast_text(trainer.is_global_zero() ? free_file(trainer, name, may_replace) : "",
                      {"ModelCheckpoint: file name", "what is saved when is decided alike"});
}

void ModelCheckpoint::remove_evicted(Trainer& trainer) {
  const auto still_used = [this](const std::string& file) {
    const auto& kept = top_k_->files();
    return file == state_.last_model_path || file == state_.best_model_path ||
           std::find(decisions_.unscored.begin(), decisions_.unscored.end(), file) != decisions_.unscored.end() ||
           std::any_of(kept.begin(), kept.end(), [&file](const auto& entry) { return entry.first == file; });
  };
  for (const std::string& file : std::exchange(decisions_.evicted, {})) {
    // The file that this run resumes from stays until a newer state is on the disk.
    if (file == resumed_file_ && state_.saved_as.empty()) {
      decisions_.evicted.push_back(file);
      continue;
    }
    if (!trainer.is_global_zero() || still_used(file)) continue;
    trainer.checkpoint_files().then([file, folder = state_.dirpath] { detail::remove_checkpoint(file, folder); },
                                    {{file, false}});
  }
}

void ModelCheckpoint::publish_aliases(Trainer& trainer) {
  const std::vector<ModelCheckpoint*> all = trainer.callbacks_of<ModelCheckpoint>();
  const auto first =
      std::find_if(all.begin(), all.end(), [](const ModelCheckpoint* one) { return one->options_.monitor.has_value(); });
  // Of several ModelCheckpoints the first one with a monitor says what is best.
  const bool says_best = this == (first == all.end() ? all.front() : *first);
  if (says_best && !state_.best_model_path.empty()) trainer.set_checkpoint_alias("best", state_.best_model_path);
  // Its name is chosen before it is written.
  const bool has_last = !state_.last_model_path.empty() && trainer.checkpoint_files().is_there(state_.last_model_path);
  if (has_last) trainer.set_checkpoint_alias(kNameLast, state_.last_model_path);
}

}  // namespace levin
