#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/options.h"
#include "levin/core/console/console.h"

namespace levin {

class CurveValues;
class LiveView;
struct LiveState;
struct ProgressLine;

struct LEVIN_API ProgressBarOptions {
  std::int64_t refresh_rate = 1;  ///< look every so many batches whether to redraw; 0: no progress at all
  bool leave = false;             ///< keep each epoch's bar on the terminal
  bool show_lr = false;           ///< training's learning rates, before the metrics

  static void declare(OptionList<ProgressBarOptions>& options);
};

/// Shows how far a run is, in the manner of the Trainer's `progress`: `live` shows fit() with curves, figures of all ranks and
/// keys (docs/live.md); else, and in other entry points, on a terminal a bar at the bottom: "Sanity Checking", "Epoch n",
/// "Validation", "Testing" or "Predicting", with the metrics logged with prog_bar. In a file or a pipe one line an epoch and an
/// evaluation. Only rank 0 shows something. Training's batches and batches a second are steps of the whole run, in which each
/// rank takes its own batch; samples a second are those of all ranks together, where they have one batch size. In an
/// evaluation ranks do not wait for one another: its bar moves with rank 0's batches, and ends with the batches of the rank
/// that had most and the samples of all. A batch costs a clock reading at most: bars are drawn ten times a second, whatever the
/// pace.
class LEVIN_API ProgressBar final : public WithOptions<Callback, ProgressBarOptions> {
 public:
  /// `console` and `clock` (seconds) are for tests; both must outlive the bar.
  explicit ProgressBar(const Options& options = {}, Console& console = Console::instance(),
                       std::function<double()> clock = nullptr);
  ProgressBar(ProgressBar&&) noexcept;
  ~ProgressBar() override;

  /// Monitoring, so that an epoch's line has the metrics that the epoch ends with.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  /// Throws ConfigError when there is a second bar.
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_sanity_check_end(Trainer& trainer, Module& module) override;
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                               std::int64_t batch_idx, std::int64_t dataloader_idx) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_test_start(Trainer& trainer, Module& module) override;
  void on_test_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch, std::int64_t batch_idx,
                         std::int64_t dataloader_idx) override;
  void on_test_end(Trainer& trainer, Module& module) override;
  void on_predict_start(Trainer& trainer, Module& module) override;
  void on_predict_batch_end(Trainer& trainer, Module& module, const Batch& prediction, const Batch& batch,
                            std::int64_t batch_idx, std::int64_t dataloader_idx) override;
  void on_predict_end(Trainer& trainer, Module& module) override;
  void on_rank_metrics(Trainer& trainer, Module& module, const MetricRow& row, const std::vector<MetricMap>& by_rank) override;
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;

 private:
  struct Bar {
    std::string description;
    std::int64_t current = 0;
    std::int64_t done_before = 0;  ///< of these, by the run that this one resumes
    std::optional<std::int64_t> total;
    double started = 0;
    double paused = 0;                    ///< seconds since then that do not count, such as those of a validation
    std::optional<std::int64_t> samples;  ///< of all ranks; unset: unknown
  };

  bool enabled(const Trainer& trainer) const;
  bool has_terminal(const Trainer& trainer) const;
  void keep_line(const Trainer& trainer);
  /// Leaves a bar, or its line, on the terminal.
  void keep_bar(const Trainer& trainer, const Bar& bar);
  void start(const Trainer& trainer, Bar& bar, std::string description, std::optional<std::int64_t> total);
  void start_evaluation(Trainer& trainer, std::string name);
  void evaluation_batch_done(Trainer& trainer, std::int64_t batch_idx, std::int64_t dataloader_idx);
  void end_evaluation(Trainer& trainer);
  /// True: it has drawn.
  bool draw_if_due(const Trainer& trainer, const Bar& bar);
  void draw(const Trainer& trainer, const Bar& bar);
  /// What the live terminal has besides the bar.
  LiveState live_state(const Trainer& trainer, const Bar& bar) const;
  /// `waits`: for values that are still on a device.
  ProgressLine line_of(const Trainer& trainer, const Bar& bar, bool waits = true) const;
  bool shows_live_view(const Trainer& trainer) const;
  /// What a file gets: "Epoch 3: 100/100 [00:02, 47.30it/s, v_num=0, train_loss=0.123]".
  void print_line(const Trainer& trainer, const Bar& bar);

  Console& console_;
  std::function<double()> clock_;
  bool utf8_;
  bool live_ = false;               ///< a bar can be drawn
  std::unique_ptr<LiveView> view_;  ///< of a fit that is shown live
  std::unique_ptr<CurveValues> curve_values_;
  double next_draw_ = 0;
  // Of a fit that is shown live, when it began: seconds of the clock, and what a run before it had done.
  double fit_started_ = 0;
  double fit_paused_ = 0;
  std::int64_t batches_before_ = 0;
  std::int64_t steps_before_ = 0;
  Bar training_;
  Bar evaluation_;
  std::string evaluation_name_;
  std::int64_t evaluation_loader_ = 0;
  bool ends_epoch_ = false;  ///< the validation that runs comes after an epoch's last batch
};

}  // namespace levin
