#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"

namespace levin {

struct LEVIN_API TimerOptions {
  std::optional<Duration> duration = std::nullopt;  ///< of training; unset: only measures
  Interval interval = Interval::kStep;              ///< how often the limit is checked
  bool verbose = true;                              ///< say when the limit is reached

  static void declare(OptionList<TimerOptions>& options);
};

/// Measures the time spent in training, validation and testing, and ends training after a given time. The time of a run that
/// is resumed counts on. Rank 0's clock decides: it votes to stop, which stops all ranks at the same step.
class LEVIN_API Timer final : public WithOptions<Callback, TimerOptions> {
 public:
  explicit Timer(const Options& options = {}) : WithOptions("Timer", options) {}

  /// Seconds spent in a stage so far, or in its last run.
  double time_elapsed(Stage stage = Stage::kTrain) const;
  /// Seconds of training that are left; unset without a duration.
  std::optional<double> time_remaining() const;

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_test_start(Trainer& trainer, Module& module) override;
  void on_test_end(Trainer& trainer, Module& module) override;

 private:
  struct Span {
    std::optional<double> start;
    std::optional<double> end;
  };
  void begin(Stage stage);
  void end(Stage stage);
  void check(Trainer& trainer);

  std::array<Span, 5> spans_;
  double earlier_training_ = 0;  ///< seconds of the run that this one resumes
  bool reported_ = false;
};

}  // namespace levin
