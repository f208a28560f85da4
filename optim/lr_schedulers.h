#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/lr_expression.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API StepLrOptions {
  using Scheduler = struct StepLr;
  static constexpr const char* kName = "StepLR";
  std::int64_t step_size = 0;
  double gamma = 0.1;
  static void declare(OptionList<StepLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma every step_size steps.
struct LEVIN_API StepLr final : FormulaLr<StepLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API MultiStepLrOptions {
  using Scheduler = struct MultiStepLr;
  static constexpr const char* kName = "MultiStepLR";
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
  static void declare(OptionList<MultiStepLrOptions>& options);
  double first_lr(double base_lr) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma at each milestone; a milestone given twice counts twice.
struct LEVIN_API MultiStepLr final : FormulaLr<MultiStepLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API ExponentialLrOptions {
  using Scheduler = struct ExponentialLr;
  static constexpr const char* kName = "ExponentialLR";
  double gamma = 0.0;
  static void declare(OptionList<ExponentialLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma at every step.
struct LEVIN_API ExponentialLr final : FormulaLr<ExponentialLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API CosineAnnealingLrOptions {
  using Scheduler = struct CosineAnnealingLr;
  static constexpr const char* kName = "CosineAnnealingLR";
  std::optional<std::int64_t> T_max = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingLrOptions>& options);
  CosineAnnealingLrOptions completed(const ScheduleLength& length) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to eta_min along half a cosine of T_max steps, and rise again in as many.
struct LEVIN_API CosineAnnealingLr final : FormulaLr<CosineAnnealingLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API CosineAnnealingWarmRestartsOptions {
  static constexpr const char* kName = "CosineAnnealingWarmRestarts";
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingWarmRestartsOptions>& options);
  /// Steps since the cycle began that a step is in, and the length of this cycle.
  std::pair<std::int64_t, std::int64_t> cycle_at(std::int64_t step) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to eta_min along half a cosine and jump back; each cycle is T_mult times as long as the one before.
struct LEVIN_API CosineAnnealingWarmRestarts final : FormulaLr<CosineAnnealingWarmRestartsOptions> {
  using FormulaLr::FormulaLr;

 private:
  void save_state(Value& state) const override;
};

struct LEVIN_API ConstantLrOptions {
  using Scheduler = struct ConstantLr;
  static constexpr const char* kName = "ConstantLR";
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  static void declare(OptionList<ConstantLrOptions>& options);
  double first_lr(double base_lr) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// The rate times factor for the first total_iters steps.
struct LEVIN_API ConstantLr final : FormulaLr<ConstantLrOptions> {
  using FormulaLr::FormulaLr;
  explicit ConstantLr(torch::optim::Optimizer& optimizer) : FormulaLr(optimizer, Options()) {}
};

struct LEVIN_API LinearLrOptions {
  using Scheduler = struct LinearLr;
  static constexpr const char* kName = "LinearLR";
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
  static void declare(OptionList<LinearLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// The rate times a factor that goes from start_factor to end_factor, linearly, in total_iters steps.
struct LEVIN_API LinearLr final : FormulaLr<LinearLrOptions> {
  using FormulaLr::FormulaLr;
  explicit LinearLr(torch::optim::Optimizer& optimizer) : FormulaLr(optimizer, Options()) {}
};

struct LEVIN_API PolynomialLrOptions {
  using Scheduler = struct PolynomialLr;
  static constexpr const char* kName = "PolynomialLR";
  std::optional<std::int64_t> total_iters = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double power = 1.0;
  static void declare(OptionList<PolynomialLrOptions>& options);
  PolynomialLrOptions completed(const ScheduleLength& length) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to zero in total_iters steps, as (1 - step / total_iters) to the given power.
struct LEVIN_API PolynomialLr final : FormulaLr<PolynomialLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API WarmupCosineLrOptions {
  using Scheduler = struct WarmupCosineLr;
  static constexpr const char* kName = "WarmupCosineLR";
  std::int64_t warmup_steps = 0;
  std::optional<std::int64_t> total_steps = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double start_factor = 0.0;
  double min_lr = 0.0;
  double min_lr_ratio = 0.0;  ///< instead of min_lr: relative to each group's initial rate
  static void declare(OptionList<WarmupCosineLrOptions>& options);
  WarmupCosineLrOptions completed(const ScheduleLength& length) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate rise linearly in warmup_steps from start_factor times the initial rate to that rate, then fall along half a
/// cosine to the lowest one, which it has from total_steps on.
struct LEVIN_API WarmupCosineLr final : FormulaLr<WarmupCosineLrOptions> {
  using FormulaLr::FormulaLr;
};

/// Base of the schedules that users write as functions of the step.
template <class OptionsType>
class LEVIN_API FunctionLr : public SteppedLrScheduler {
 public:
  using Options = OptionsType;
  /// The factor at a step; steps count from 0.
  using Factor = std::function<double(std::int64_t)>;

  FunctionLr(torch::optim::Optimizer& optimizer, const Factor& lr_lambda);
  /// One function for each parameter group. Throws MisuseError when their number differs.
  FunctionLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);
  /// Functions as expressions. Throws ConfigError when there is a list of another length. A step throws MisuseError where the
  /// value is not finite.
  FunctionLr(torch::optim::Optimizer& optimizer, const OptionsType& options);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
  bool takes_new_groups() const override { return false; }
  void save_state(Value& state) const override;

  std::vector<Factor> lr_lambdas_;
};

struct LEVIN_API LambdaLrOptions {
  using Scheduler = struct LambdaLr;
  static constexpr const char* kName = "LambdaLR";
  PerGroup<LrExpression> lr_lambda = {};
  static void declare(OptionList<LambdaLrOptions>& options);
};

struct LEVIN_API MultiplicativeLrOptions {
  using Scheduler = struct MultiplicativeLr;
  static constexpr const char* kName = "MultiplicativeLR";
  PerGroup<LrExpression> lr_lambda = {};
  static void declare(OptionList<MultiplicativeLrOptions>& options);
};

extern template class LEVIN_API FunctionLr<LambdaLrOptions>;
extern template class LEVIN_API FunctionLr<MultiplicativeLrOptions>;

/// The initial rate times a function of the step.
struct LEVIN_API LambdaLr final : FunctionLr<LambdaLrOptions> {
  using FunctionLr::FunctionLr;
};

/// Multiplies the rate at each step by a function of the step, from step 1 on.
struct LEVIN_API MultiplicativeLr final : FunctionLr<MultiplicativeLrOptions> {
  using FunctionLr::FunctionLr;
};

/// Along what a rate rises and falls.
enum class AnnealStrategy : std::uint8_t { kCos, kLinear };
template <>
inline constexpr std::array kChoices<AnnealStrategy> = {Choice{AnnealStrategy::kCos, "cos"},
                                                        Choice{AnnealStrategy::kLinear, "linear"}};

struct LEVIN_API SwaLrOptions {
  using Scheduler = class SwaLr;
  PerGroup<double> swa_lr = 0.0;
  std::int64_t anneal_epochs = 10;
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  static void declare(OptionList<SwaLrOptions>& options);
  void check_groups(std::size_t groups) const;
};

/// Goes from the rate that it finds to swa_lr in anneal_epochs steps and stays there, for averages of weights: PyTorch's
/// torch.optim.swa_utils.SWALR. Groups that are added before that follow, too, where swa_lr is one number.
class LEVIN_API SwaLr final : public SteppedLrSchedulerWith<SwaLrOptions> {
 public:
  /// Throws ConfigError as checked() does.
  SwaLr(torch::optim::Optimizer& optimizer, const SwaLrOptions& options);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
  bool takes_new_groups() const override { return !options().swa_lr.is_list(); }
  double lr_at(std::size_t group, std::int64_t step, double lr) const;
  void save_state(Value& state) const override;
  void load_state(const Value& state) override;
};

/// Whether a threshold is a part of the best metric so far, or a difference from it.
enum class ThresholdMode : std::uint8_t { kRelative, kAbsolute };
template <>
inline constexpr std::array kChoices<ThresholdMode> = {Choice{ThresholdMode::kRelative, "rel"},
                                                       Choice{ThresholdMode::kAbsolute, "abs"}};

struct LEVIN_API ReduceLrOnPlateauOptions {
  using Scheduler = class ReduceLrOnPlateau;
  MonitorMode mode = MonitorMode::kMin;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRelative;
  std::int64_t cooldown = 0;
  PerGroup<double> min_lr = 0.0;
  double eps = 1e-8;
  static void declare(OptionList<ReduceLrOnPlateauOptions>& options);
};

/// Multiplies the rate by factor when a metric has not become better for more than `patience` steps.
class LEVIN_API ReduceLrOnPlateau final : public LrScheduler {
 public:
  using Options = ReduceLrOnPlateauOptions;
  explicit ReduceLrOnPlateau(torch::optim::Optimizer& optimizer, const ReduceLrOnPlateauOptions& options = {});

  /// Throws MisuseError without a metric.
  void step(std::optional<double> metric = std::nullopt) override;
  bool needs_metric() const override { return true; }
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  bool is_better(double metric) const;
  void reduce();

  torch::optim::Optimizer& optimizer_;
  Options options_;
  std::vector<double> last_lr_;
  double best_;
  std::int64_t last_epoch_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace levin
