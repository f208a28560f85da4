#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"

namespace levin {

struct LEVIN_API EarlyStoppingOptions {
  std::string monitor;        ///< key to watch; required
  double min_delta = 0.0;     ///< a change must be larger than this to be an improvement
  std::int64_t patience = 3;  ///< checks without improvement after which the run stops
  bool verbose = false;
  MonitorMode mode = MonitorMode::kMin;
  bool strict = true;        ///< a key that is not logged is an error; false: such a check is skipped
  bool check_finite = true;  ///< stop when the metric is NaN or infinite
  std::optional<double> stopping_threshold = std::nullopt;
  std::optional<double> divergence_threshold = std::nullopt;
  /// true: check when a training epoch ends; false: when validation ends; unset: the former when every epoch validates once.
  std::optional<bool> check_on_train_epoch_end = std::nullopt;
  bool log_rank_zero_only = false;  ///< verbose lines on rank 0 only

  static void declare(OptionList<EarlyStoppingOptions>& options);
};

/// Why a run was stopped. The numbers are Lightning's and go into checkpoints.
enum class EarlyStoppingReason : std::int8_t {
  kNotStopped = 0,
  kStoppingThreshold = 1,
  kDivergenceThreshold = 2,
  kPatienceExhausted = 3,
  kNonFiniteMetric = 4
};
/// choice_name() gives the names.
template <>
inline constexpr std::array kChoices<EarlyStoppingReason> = {
    Choice{EarlyStoppingReason::kNotStopped, "not_stopped"},
    Choice{EarlyStoppingReason::kStoppingThreshold, "stopping_threshold"},
    Choice{EarlyStoppingReason::kDivergenceThreshold, "divergence_threshold"},
    Choice{EarlyStoppingReason::kPatienceExhausted, "patience_exhausted"},
    Choice{EarlyStoppingReason::kNonFiniteMetric, "non_finite_metric"}};

/// Stops training when a metric no longer improves. Every rank decides on the same value, so that all stop together. A stop
/// that min_epochs or min_steps holds up is withdrawn when the metric recovers before that.
class LEVIN_API EarlyStopping final : public WithOptions<Callback, EarlyStoppingOptions> {
 public:
  /// What one check said.
  struct Decision {
    bool stop = false;
    std::string message;  ///< empty: nothing to report
  };

  /// Throws ConfigError as checked() does.
  explicit EarlyStopping(Options options);

  /// Judges the metric's new value and remembers what the next check needs.
  Decision evaluate(double current);

  std::int64_t wait_count() const { return state_.wait_count; }
  std::int64_t stopped_epoch() const { return state_.stopped_epoch; }
  double best_score() const { return state_.best_score; }
  EarlyStoppingReason stopping_reason() const { return static_cast<EarlyStoppingReason>(state_.stopping_reason); }
  std::string stopping_reason_message() const { return state_.stopping_reason_message.value_or(""); }

  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }
  std::string state_key() const override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;

 private:
  /// Under Lightning's names.
  struct State {
    std::int64_t wait_count = 0;
    std::int64_t stopped_epoch = 0;
    double best_score = 0;
    std::int64_t patience = 0;
    std::int64_t stopping_reason = 0;
    std::optional<std::string> stopping_reason_message;
    bool asked_to_stop = false;
  };

  bool improves(double current, double than) const;
  Decision stop_because(EarlyStoppingReason reason, std::string message);
  void check(Trainer& trainer);

  State state_;
};

}  // namespace levin
