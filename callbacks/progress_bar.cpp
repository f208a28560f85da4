#include "levin/callbacks/progress_bar.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "levin/callbacks/live/live_figures.h"
#include "levin/callbacks/live/live_view.h"
#include "levin/callbacks/live/run_pace.h"
#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/timer.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/terminal.h"
#include "levin/core/learning_rates.h"
#include "levin/core/logger.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr double kSecondsBetweenDraws = 0.1;

// Of a terminal that `auto` takes for the live view.
constexpr int kLeastColumns = 100;
constexpr int kLeastRows = 24;

std::optional<std::int64_t> known(std::int64_t batches) {
  return batches < 0 ? std::nullopt : std::optional<std::int64_t>(batches);
}

/// "0" of "version_0"; of a name of the user's own, the last four characters.
std::string version_number(const std::string& version) {
  const std::string prefix = "version_";
  if (version.rfind(prefix, 0) == 0) return version.substr(prefix.size());
  return version.size() <= 4 ? version : version.substr(version.size() - 4);
}

/// One where all are the same; else each by its name.
MetricMap shown_rates(const MetricMap& rates) {
  const auto differs = [&](const auto& entry) { return entry.second != rates.begin()->second; };
  const bool are_equal = !rates.empty() && std::none_of(rates.begin(), rates.end(), differs);
  return are_equal ? MetricMap{{"lr", rates.begin()->second}} : rates;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(ProgressBar, "Show how far a run is");
LEVIN_REGISTER_(Callback, ProgressBar, "RichProgressBar", "Another name of ProgressBar");
LEVIN_REGISTER_(Callback, ProgressBar, "TQDMProgressBar", "Another name of ProgressBar");

void ProgressBarOptions::declare(OptionList<ProgressBarOptions>& options) {
  options.add(&ProgressBarOptions::refresh_rate, "Batches after which the bar may change; 0: show nothing")
      .min(0)
      .instead("0 shows nothing");
  options.add(&ProgressBarOptions::leave, "Keep each epoch's bar on the terminal");
  options.add(&ProgressBarOptions::show_lr,
              "Show the learning rate; one for each optimizer and parameter group where they differ");
}

ProgressBar::ProgressBar(const Options& options, Console& console, std::function<double()> clock)
    : WithOptions("ProgressBar", options),
      console_(console),
      clock_(clock ? std::move(clock) : steady_seconds),
      utf8_(locale_is_utf8()) {}

ProgressBar::ProgressBar(ProgressBar&&) noexcept = default;
ProgressBar::~ProgressBar() = default;

void ProgressBar::setup(Trainer& trainer, Module&, Stage) {
  const std::size_t bars = trainer.callbacks_of<ProgressBar>().size();
  if (bars == 1) return;
  throw ConfigError(
      format("trainer: callbacks: there are {} ProgressBars, which would print every line {} times; leave one.", bars, bars));
}

void ProgressBar::on_train_start(Trainer& trainer, Module&) {
  if (!enabled(trainer)) return;
  live_ = has_terminal(trainer);
  if (!live_ || !shows_live_view(trainer)) return;
  console_.clear_live_line();
  curve_values_ = std::make_unique<CurveValues>();
  view_ = std::make_unique<LiveView>(trainer, console_);
  fit_started_ = clock_();
  fit_paused_ = 0;
  batches_before_ = trainer.total_batch_idx();
  steps_before_ = trainer.global_step();
}

void ProgressBar::on_train_epoch_start(Trainer& trainer, Module&) {
  if (!enabled(trainer)) return;
  start(trainer, training_, format("Epoch {}", trainer.current_epoch()), known(trainer.num_training_batches()));
  training_.current = training_.done_before = trainer.batch_idx() + 1;
  training_.samples = 0;
  if (live_) draw(trainer, training_);
}

void ProgressBar::on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch& batch, std::int64_t batch_idx) {
  if (!enabled(trainer)) return;
  training_.current = batch_idx + 1;
  const std::optional<std::int64_t> samples = samples_of_all_ranks(trainer, batch);
  training_.samples = samples && training_.samples ? std::optional(*training_.samples + *samples) : std::nullopt;
  if (!draw_if_due(trainer, training_) || !view_) return;
  view_->add(curve_values_->of_step(trainer), static_cast<double>(trainer.total_batch_idx() + 1), false);
}

void ProgressBar::on_train_epoch_end(Trainer& trainer, Module&) {
  if (!enabled(trainer)) return;
  if (!live_) return print_line(trainer, training_);
  draw(trainer, training_);
  if (options_.leave) keep_bar(trainer, training_);
}

void ProgressBar::on_train_end(Trainer& trainer, Module&) { keep_line(trainer); }

void ProgressBar::on_exception(Trainer& trainer, Module&, const std::exception&) { keep_line(trainer); }

void ProgressBar::on_rank_metrics(Trainer& trainer, Module&, const MetricRow& row, const std::vector<MetricMap>&) {
  if (!view_) return;
  view_->add(curve_values_->of_row(trainer, row), static_cast<double>(trainer.total_batch_idx()),
             row.stage == Stage::kValidate);
}

void ProgressBar::on_sanity_check_end(Trainer& trainer, Module&) {
  if (enabled(trainer) && live_) console_.clear_live_line();
}

void ProgressBar::on_validation_start(Trainer& trainer, Module&) {
  start_evaluation(trainer, trainer.sanity_checking() ? "Sanity Checking" : "Validation");
}

void ProgressBar::on_test_start(Trainer& trainer, Module&) { start_evaluation(trainer, "Testing"); }

void ProgressBar::on_predict_start(Trainer& trainer, Module&) { start_evaluation(trainer, "Predicting"); }

void ProgressBar::on_validation_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                                          std::int64_t dataloader_idx) {
  evaluation_batch_done(trainer, batch_idx, dataloader_idx);
}

void ProgressBar::on_test_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                                    std::int64_t dataloader_idx) {
  evaluation_batch_done(trainer, batch_idx, dataloader_idx);
}

void ProgressBar::on_predict_batch_end(Trainer& trainer, Module&, const Batch&, const Batch&, std::int64_t batch_idx,
                                       std::int64_t dataloader_idx) {
  evaluation_batch_done(trainer, batch_idx, dataloader_idx);
}

void ProgressBar::on_validation_end(Trainer& trainer, Module&) { end_evaluation(trainer); }

void ProgressBar::on_test_end(Trainer& trainer, Module&) { end_evaluation(trainer); }

void ProgressBar::on_predict_end(Trainer& trainer, Module&) { end_evaluation(trainer); }

bool ProgressBar::enabled(const Trainer& trainer) const { return options_.refresh_rate > 0 && trainer.is_global_zero(); }

bool ProgressBar::has_terminal(const Trainer& trainer) const {
  return console_.has_live_line() && trainer.options().progress != ProgressView::kLines;
}

bool ProgressBar::shows_live_view(const Trainer& trainer) const {
  if (trainer.options().progress != ProgressView::kAuto) return trainer.options().progress == ProgressView::kLive;
  const TerminalSize size = console_.live_size();
  return OwnProcess::is_one() && Keys::are_there() && size.columns >= kLeastColumns && size.rows >= kLeastRows;
}

void ProgressBar::keep_line(const Trainer& trainer) {
  if (!enabled(trainer) || !live_) return;
  if (std::exchange(view_, nullptr)) return keep_bar(trainer, training_);
  console_.keep_live_line();
}

void ProgressBar::keep_bar(const Trainer& trainer, const Bar& bar) {
  if (!view_) console_.set_live_line(progress_line(line_of(trainer, bar), console_.live_line_width(), utf8_));
  view_ ? print_line(trainer, bar) : console_.keep_live_line();
}

void ProgressBar::start(const Trainer& trainer, Bar& bar, std::string description, std::optional<std::int64_t> total) {
  bar = Bar{};
  bar.description = std::move(description);
  bar.total = total;
  bar.started = clock_();
  live_ = has_terminal(trainer);
  next_draw_ = 0;
}

ProgressLine ProgressBar::line_of(const Trainer& trainer, const Bar& bar, bool waits) const {
  ProgressLine line;
  line.description = bar.description;
  line.current = bar.current;
  line.total = bar.total;
  line.elapsed_seconds = clock_() - bar.started;
  const double working = line.elapsed_seconds - bar.paused;
  if (working > 0) {
    line.rate = static_cast<double>(bar.current - bar.done_before) / working;
    if (bar.samples) line.samples_rate = static_cast<double>(*bar.samples) / working;
  }
  if (!trainer.loggers().empty() && !trainer.loggers().front()->version().empty()) {
    line.details.emplace_back("v_num", version_number(trainer.loggers().front()->version()));
  }
  if (options_.show_lr && &bar == &training_) {
    for (const auto& [name, rate] : shown_rates(learning_rates(trainer))) line.metrics.emplace_back(name, figure_text(rate));
  }
  const MetricMap metrics = waits ? trainer.progress_bar_metrics() : trainer.progress_bar_metrics_at_hand();
  for (const auto& [name, value] : metrics) line.metrics.emplace_back(name, figure_text(value));
  return line;
}

void ProgressBar::draw(const Trainer& trainer, const Bar& bar) {
  if (view_) {
    const double pause = view_->take_pause();
    training_.paused += pause;
    fit_paused_ += pause;
    view_->show(live_state(trainer, bar));
  } else {
    console_.set_live_line(progress_line(line_of(trainer, bar, /*waits=*/false), console_.live_line_width(), utf8_));
  }
  next_draw_ = clock_() + kSecondsBetweenDraws;
}

LiveState ProgressBar::live_state(const Trainer& trainer, const Bar& bar) const {
  LiveState state = live_figures(trainer, line_of(trainer, bar, /*waits=*/false));
  const TrainerOptions& options = trainer.options();
  const std::int64_t epochs = options.max_epochs.value_or(-1);
  RunPace pace{.seconds = clock_() - fit_started_ - fit_paused_,
               .batches = trainer.total_batch_idx() - batches_before_,
               .steps = trainer.global_step() - steps_before_};
  if (epochs > 0 && trainer.current_epoch() < epochs) {
    // Files and messages count from 0, people from 1.
    if (&bar == &training_) state.epoch = trainer.current_epoch() + 1;
    state.epochs = epochs;
    if (training_.total) pace.batches_left = (epochs - trainer.current_epoch()) * *training_.total - training_.current;
  }
  if (options.max_steps >= 0) pace.steps_left = options.max_steps - trainer.global_step();
  for (const Timer* const timer : trainer.callbacks_of<Timer>()) {
    if (const auto left = timer->time_remaining()) pace.seconds_left = std::min(pace.seconds_left.value_or(*left), *left);
  }
  state.seconds_left = seconds_to_end(pace);
  return state;
}

bool ProgressBar::draw_if_due(const Trainer& trainer, const Bar& bar) {
  if (!live_ || bar.current % options_.refresh_rate != 0 || clock_() < next_draw_) return false;
  draw(trainer, bar);
  return true;
}

void ProgressBar::print_line(const Trainer& trainer, const Bar& bar) {
  const ProgressLine line = line_of(trainer, bar);
  std::string text = format("{}: {}", line.description, line.current);
  if (line.total) text += format("/{}", *line.total);
  text += " [" + duration_text(line.elapsed_seconds);
  if (line.rate) text += format(", {:.2f}it/s", *line.rate);
  if (line.samples_rate) text += ", " + samples_rate_text(*line.samples_rate);
  for (const ProgressLine::Figures& figures : {line.details, line.metrics}) {
    for (const auto& [name, figure] : figures) text += format(", {}={}", name, figure);
  }
  console_.print(LogLevel::kInfo, text + "]", Speaker::kRun);
}

void ProgressBar::start_evaluation(Trainer& trainer, std::string name) {
  if (!enabled(trainer)) return;
  const auto& batches = trainer.num_evaluation_batches();
  evaluation_name_ = std::move(name);
  evaluation_loader_ = 0;
  ends_epoch_ = trainer.is_last_batch();
  start(trainer, evaluation_, evaluation_name_ + (batches.size() > 1 ? " DataLoader 0" : ""),
        batches.empty() ? std::nullopt : known(batches.front()));
  if (live_) draw(trainer, evaluation_);
}

void ProgressBar::evaluation_batch_done(Trainer& trainer, std::int64_t batch_idx, std::int64_t dataloader_idx) {
  if (!enabled(trainer)) return;
  if (dataloader_idx != evaluation_loader_) {
    const auto& batches = trainer.num_evaluation_batches();
    const auto position = static_cast<std::size_t>(dataloader_idx);
    evaluation_loader_ = dataloader_idx;
    evaluation_.description = format("{} DataLoader {}", evaluation_name_, dataloader_idx);
    evaluation_.total = position < batches.size() ? known(batches[position]) : std::nullopt;
  }
  evaluation_.current = batch_idx + 1;
  draw_if_due(trainer, evaluation_);
}

void ProgressBar::end_evaluation(Trainer& trainer) {
  if (!enabled(trainer)) return;
  const bool inside_training = trainer.fitting() && !detail::before_training(trainer);
  // Neither a sanity check nor a validation that ends an epoch needs a line: the epoch's line follows and has the metrics. In a
  // pause it does not follow yet.
  const bool needs_line = !trainer.fitting() || (!trainer.sanity_checking() && (!ends_epoch_ || trainer.paused()));
  const EvaluationTotals& totals = evaluation_of_all_ranks(trainer);
  evaluation_.samples = totals.samples;
  if (live_) {
    // With several loaders the bar is the last one's.
    if (trainer.num_evaluation_batches().size() == 1) {
      evaluation_.current = totals.batches;
      evaluation_.total = totals.batches;
    }
    draw(trainer, evaluation_);
    // Above a view there is room for it, and a requested validation has its result there.
    if (options_.leave || !trainer.fitting() || (view_ && needs_line)) keep_bar(trainer, evaluation_);
  } else if (needs_line) {
    evaluation_.description = evaluation_name_;
    evaluation_.current = totals.batches;
    evaluation_.total = totals.batches;
    print_line(trainer, evaluation_);
  }
  if (!inside_training) return;
  training_.paused += clock_() - evaluation_.started;
  if (live_) draw(trainer, training_);
}

}  // namespace levin
