#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/config/option_type.h"
#include "levin/core/tuning_callback.h"

namespace levin {

/// How rates follow one another.
enum class RateMode : std::uint8_t { kExponential, kLinear };
template <>
inline constexpr std::array kChoices<RateMode> = {Choice{RateMode::kExponential, "exponential"},
                                                  Choice{RateMode::kLinear, "linear"}};

/// Against what the slope of the loss is taken.
enum class SlopeOver : std::uint8_t { kPlot, kRate };
template <>
inline constexpr std::array kChoices<SlopeOver> = {Choice{SlopeOver::kPlot, "plot"}, Choice{SlopeOver::kRate, "rate"}};

struct LEVIN_API LearningRateFinderOptions {
  double min_lr = 1e-8;
  double max_lr = 1;
  std::int64_t num_training_steps = 100;
  RateMode mode = RateMode::kExponential;
  std::optional<double> early_stop_threshold = 4.0;  ///< ends at a loss of so many times the best one; unset: never
  bool update = true;                                ///< the fit begins with the rate that was found
  /// kPlot: the axis of the plot, of which rates that rise exponentially are equally far apart. kRate: the rate itself, as
  /// Lightning has it; there the smallest rates, where a step's noise is divided by next to nothing, often win.
  SlopeOver slope_over = SlopeOver::kPlot;

  static void declare(OptionList<LearningRateFinderOptions>& options);
};

/// Before a fit begins, trains some steps with rates from the lowest to the highest, and suggests the one at which the loss
/// fell most steeply; then restores the state (TrialRunner). The loss of a step is the mean over ranks, by samples, in a
/// moving average of decay 0.98. For one optimizer.
/// Leslie N. Smith, Cyclical Learning Rates for Training Neural Networks, 2017.
class LEVIN_API LearningRateFinder final : public WithOptions<TuningCallback, LearningRateFinderOptions> {
 public:
  explicit LearningRateFinder(Options options = {});

  /// By step, of the last fit that began with this callback.
  const std::vector<double>& rates() const { return rates_; }
  const std::vector<double>& losses() const { return losses_; }
  /// Unset where too few losses are finite. The first and the last steps do not count.
  std::optional<double> suggestion(std::size_t skip_begin = 10, std::size_t skip_end = 1) const;

  /// `lr`, `loss` and `suggestion`, once it has begun a fit.
  Value state_dict() const override { return found_; }
  void load_state_dict(const Value& state) override { found_ = state; }
  /// Throws MisuseError for several optimizers.
  void tune(Trainer& trainer, TrialRunner& trials) override;

 private:
  std::vector<double> rates_;
  std::vector<double> losses_;
  Value found_;
};

/// How sizes follow one another.
enum class SizeMode : std::uint8_t { kPower, kBinsearch };
template <>
inline constexpr std::array kChoices<SizeMode> = {Choice{SizeMode::kPower, "power"}, Choice{SizeMode::kBinsearch, "binsearch"}};

struct LEVIN_API BatchSizeFinderOptions {
  SizeMode mode = SizeMode::kPower;
  std::int64_t steps_per_trial = 3;
  std::int64_t init_val = 2;
  std::int64_t max_trials = 25;
  double margin = 0.05;         ///< share that binsearch leaves free, where memory was the limit
  std::int64_t max_val = 8192;  ///< the largest size that is tried
  /// What the process may take of memory: up to 1 a share of the machine's, above that bytes; unset: until an allocation fails,
  /// which the CPU's hardly ever do.
  std::optional<double> memory_limit = std::nullopt;
  bool update = true;  ///< the fit begins with the size that was found

  static void declare(OptionList<BatchSizeFinderOptions>& options);
};

/// Before a fit begins, trains some steps with larger and larger batches until memory does not suffice, and then, with
/// kBinsearch, with sizes in between; then restores the state (TrialRunner). Out of memory is c10::OutOfMemoryError,
/// std::bad_alloc, an error of LibTorch's allocator for the CPU, or `memory_limit`. For one rank.
class LEVIN_API BatchSizeFinder final : public WithOptions<TuningCallback, BatchSizeFinderOptions> {
 public:
  explicit BatchSizeFinder(const Options& options = {}) : WithOptions("BatchSizeFinder", options) {}

  /// `batch_size`, which was found, and `trials`, in their order: of each `batch_size`, `fits`, `samples_per_second` (after the
  /// first step, unless there is no other) and `peak_bytes` of the process's memory. Null before it has begun a fit.
  Value state_dict() const override { return found_; }
  void load_state_dict(const Value& state) override { found_ = state; }
  /// Throws ConfigError on several ranks, and Error when memory does not suffice for any size that was tried.
  void tune(Trainer& trainer, TrialRunner& trials) override;

 private:
  bool try_size(TrialRunner& trials, std::int64_t batch_size);
  std::int64_t search(std::int64_t most, const std::function<bool(std::int64_t)>& fits) const;

  Value found_;
};

}  // namespace levin
