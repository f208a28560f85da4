#include "levin/callbacks/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/callbacks/checkpoint_files.h"
#include "levin/callbacks/checkpoint_name.h"
#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/shared_interval.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/background_files.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/core/logger.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// True when a metric was measured between the two looks at it.
bool was_measured(std::optional<double> before, std::optional<double> after) {
  if (!after) return false;
  return !before || (*before != *after && !(std::isnan(*before) && std::isnan(*after)));
}

std::string position(const Trainer& trainer) {
  return format("Epoch {}, global step {}", trainer.current_epoch(), trainer.global_step());
}

}  // namespace

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
    const bool has_files = std::filesystem::directory_iterator(folder, missing) != std::filesystem::directory_iterator();
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
    decisions_.decided_step = decisions_.last_saved_step = decisions_.triggered_step = trainer.global_step();
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
                                                                         "rank 0 has told all in which batch they ask next"});
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
  if (!decisions_.unranked.empty() && !value) report_missing_monitor(trainer);
  if (value) rank_saved(trainer, *value);
  if (decisions_.waits_for_validation) {
    save(trainer, Occasion::kEpoch);
  } else if (!detail::looks_at_epoch_end(trainer, options_.save_on_train_epoch_end)) {
    epoch_ended(trainer);
  }
}

void ModelCheckpoint::on_train_epoch_end(Trainer& trainer, Module&) {
  if (off(trainer)) return;
  // A metric of the training epoch has its value now.
  if (!decisions_.unranked.empty() && !decisions_.measured_in_validation) {
    if (const auto value = score(trainer)) rank_saved(trainer, *value);
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
  if (!decisions_.unranked.empty()) {
    rank_zero_info(format("ModelCheckpoint: training ended before '{}' was measured for {}; kept without a score.",
                          *options_.monitor, join(decisions_.unranked)));
  }
  save_last(trainer);
}

void ModelCheckpoint::on_fit_end(Trainer& trainer, Module&) {
  // A run that goes on from its very end has nothing to train, but maybe a file to write.
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
    std::error_code ignored;
    missing.best =
        decisions_.decided_step == step && !resumed_file_.empty() && !std::filesystem::exists(resumed_file_, ignored);
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
  // Before the first file, whose state goes with it: a run that goes on from that file writes last.ckpt and no second one.
  if (options_.save_last.enabled() && state_.last_model_path.empty())
    state_.last_model_path = choose_file(trainer, kNameLast, "");
  save_best(trainer, occasion);
  save_last(trainer);
}

void ModelCheckpoint::save_best(Trainer& trainer, Occasion occasion) {
  if (options_.save_top_k == 0 || decisions_.decided_step == trainer.global_step()) return;
  if (!options_.monitor) return save_newest(trainer);
  const bool stale = decisions_.measured_in_validation && decisions_.validated_step != trainer.global_step();
  const std::optional<double> value = score(trainer, /*now=*/occasion == Occasion::kBatch && !stale);
  if (occasion == Occasion::kBatch && (stale || !value)) return save_unranked(trainer);
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
  decisions_.decided_step = trainer.global_step();
  if (!top_k_->accepts(score)) {
    if (options_.verbose) {
      rank_zero_info(format("{}: '{}' was not in top {}", position(trainer), *options_.monitor, options_.save_top_k));
    }
    return;
  }
  const std::string file = choose_file(trainer, current_name(trainer), top_k_->next_displaced().value_or(""));
  add_ranked(trainer, file, score);
  write(trainer, file);
}

void ModelCheckpoint::add_ranked(const Trainer& trainer, const std::string& file, double score) {
  if (const auto displaced = top_k_->next_displaced()) decisions_.displaced.push_back(*displaced);
  top_k_->add(file, score);
  state_.current_score = std::isnan(score) ? detail::worst_score(options_.mode) : score;
  std::tie(state_.best_model_path, state_.best_model_score) = *top_k_->best();
  if (!options_.verbose) return;
  const auto text_of = [](double score) { return detail::score_text(score, 0.0001); };
  rank_zero_info(format("{}: '{}' reached {} (best {}), saving model to '{}' as top {}", position(trainer), *options_.monitor,
                        text_of(*state_.current_score), text_of(*state_.best_model_score), file,
                        options_.save_top_k == -1 ? static_cast<std::int64_t>(top_k_->files().size()) : options_.save_top_k));
}

void ModelCheckpoint::save_unranked(Trainer& trainer) {
  decisions_.decided_step = trainer.global_step();
  const bool full = options_.save_top_k > 0 && decisions_.unranked.size() == static_cast<std::size_t>(options_.save_top_k);
  if (full) {
    decisions_.displaced.push_back(decisions_.unranked.front());
    decisions_.unranked.erase(decisions_.unranked.begin());
  }
  const std::string file = choose_file(trainer, current_name(trainer), full ? decisions_.displaced.back() : "");
  decisions_.unranked.push_back(file);
  write(trainer, file);
}

void ModelCheckpoint::rank_saved(Trainer& trainer, double score) {
  if (decisions_.unranked.empty()) return;
  std::vector<std::string> files = std::exchange(decisions_.unranked, {});
  std::reverse(files.begin(), files.end());
  for (const std::string& file : files) {
    if (top_k_->accepts(score)) {
      add_ranked(trainer, file, score);
    } else {
      decisions_.displaced.push_back(file);
    }
  }
  publish_aliases(trainer);
  remove_displaced(trainer);
}

void ModelCheckpoint::save_newest(Trainer& trainer) {
  decisions_.decided_step = trainer.global_step();
  const std::string file = choose_file(trainer, current_name(trainer), state_.best_model_path);
  const std::string previous = std::exchange(state_.best_model_path, file);
  if (options_.save_top_k == 1 && !previous.empty()) decisions_.displaced.push_back(previous);
  write(trainer, file);
}

void ModelCheckpoint::save_last(Trainer& trainer) {
  if (options_.save_last.enabled() && decisions_.last_saved_step != trainer.global_step()) {
    const std::string file = choose_file(trainer, kNameLast, state_.last_model_path);
    decisions_.last_saved_step = trainer.global_step();
    write_last(trainer, file);
  }
  // Last, so that a run killed at any instant leaves the old files or the new ones, and last.ckpt never points to nothing.
  remove_displaced(trainer);
}

void ModelCheckpoint::write_last(Trainer& trainer, const std::string& file) {
  const std::string previous = std::exchange(state_.last_model_path, file);
  if (!previous.empty() && previous != file) decisions_.displaced.push_back(previous);
  if (options_.save_last.link() && newest_file_step_ == trainer.global_step()) {
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
    // Nothing counts as decided or saved: a run that goes on from here does what this one would have done next.
    if (options_.save_last.enabled() && state_.last_model_path.empty())
      state_.last_model_path = free_file(trainer, kNameLast, "");
    const std::string file = decisions_.exceptional_file = free_file(trainer, current_name(trainer), "");
    write(trainer, file);
    if (options_.save_last.enabled()) write_last(trainer, free_file(trainer, kNameLast, state_.last_model_path));
    const bool is_stop = dynamic_cast<const Interrupted*>(&error) != nullptr;
    rank_zero_info(is_stop ? format("{} Saved its state as {}", error.what(), as_typed(file))
                           : format("Training ended with an error ({}); saved its state as {}", error.what(), as_typed(file)));
    // A stop is no error, and one line is enough of it.
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

void ModelCheckpoint::remove_displaced(Trainer& trainer) {
  const auto still_used = [this](const std::string& file) {
    const auto& kept = top_k_->files();
    return file == state_.last_model_path || file == state_.best_model_path ||
           std::find(decisions_.unranked.begin(), decisions_.unranked.end(), file) != decisions_.unranked.end() ||
           std::any_of(kept.begin(), kept.end(), [&file](const auto& entry) { return entry.first == file; });
  };
  for (const std::string& file : std::exchange(decisions_.displaced, {})) {
    // What this run goes on from stays until it has a newer state on the disk.
    if (file == resumed_file_ && state_.saved_as.empty()) {
      decisions_.displaced.push_back(file);
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
