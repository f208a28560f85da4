#include "levin/optim/lr_schedulers.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<StepLr>, "StepLR", "Multiplies the rate every so many steps");

void StepLrOptions::declare(OptionList<StepLrOptions>& options) {
  options.add(&StepLrOptions::step_size, "Steps between two changes of the rate").required().min(1);
  options.add(&StepLrOptions::gamma, "Factor of each change");
}

double StepLrOptions::next_lr(std::int64_t step, double lr, double) const {
  return step != 0 && step % step_size == 0 ? lr * gamma : lr;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiStepLr>, "MultiStepLR", "Multiplies the rate at given steps");

void MultiStepLrOptions::declare(OptionList<MultiStepLrOptions>& options) {
  options.add(&MultiStepLrOptions::milestones, "Steps at which the rate changes").required();
  options.add(&MultiStepLrOptions::gamma, "Factor of each change");
}

double MultiStepLrOptions::next_lr(std::int64_t step, double lr, double) const {
  const auto due = std::count(milestones.begin(), milestones.end(), step);
  return due == 0 ? lr : lr * std::pow(gamma, static_cast<double>(due));
}

double MultiStepLrOptions::first_lr(double base_lr) const {
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [](std::int64_t step) { return step <= 0; });
  return base_lr * std::pow(gamma, static_cast<double>(passed));
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ExponentialLr>, "ExponentialLR", "Multiplies the rate at every step");

void ExponentialLrOptions::declare(OptionList<ExponentialLrOptions>& options) {
  options.add(&ExponentialLrOptions::gamma, "Factor of every step").required();
}

double ExponentialLrOptions::next_lr(std::int64_t step, double lr, double) const { return step == 0 ? lr : lr * gamma; }

namespace {

// 1 + cos(pi * step / half_period)
double one_plus_cos(std::int64_t step, std::int64_t half_period) {
  return 1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(half_period));
}

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CosineAnnealingLr>, "CosineAnnealingLR",
                "Falls along half a cosine, and rises again");

void CosineAnnealingLrOptions::declare(OptionList<CosineAnnealingLrOptions>& options) {
  options.add(&CosineAnnealingLrOptions::T_max, "Steps from the highest to the lowest rate. Unset: all of training").min(1);
  options.add(&CosineAnnealingLrOptions::eta_min, "Lowest rate");
}

CosineAnnealingLrOptions CosineAnnealingLrOptions::completed(const ScheduleLength& length) const {
  return {.T_max = length.unless(T_max, kName, "T_max"), .eta_min = eta_min};
}

double CosineAnnealingLrOptions::next_lr(std::int64_t step, double lr, double base_lr) const {
  if (step == 0) return lr;
  // The step before was at the lowest rate, from which the recursion below cannot rise.
  if ((step - 1 - *T_max) % (2 * *T_max) == 0) {
    return lr + (base_lr - eta_min) * (1.0 - std::cos(std::numbers::pi / static_cast<double>(*T_max))) / 2.0;
  }
  return one_plus_cos(step, *T_max) / one_plus_cos(step - 1, *T_max) * (lr - eta_min) + eta_min;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CosineAnnealingWarmRestarts>, "CosineAnnealingWarmRestarts",
                "Falls along half a cosine, and restarts");

void CosineAnnealingWarmRestartsOptions::declare(OptionList<CosineAnnealingWarmRestartsOptions>& options) {
  options.add(&CosineAnnealingWarmRestartsOptions::T_0, "Steps of the first cycle").required().min(1);
  options.add(&CosineAnnealingWarmRestartsOptions::T_mult, "Factor from one cycle's length to the next").min(1);
  options.add(&CosineAnnealingWarmRestartsOptions::eta_min, "Lowest rate");
}

std::pair<std::int64_t, std::int64_t> CosineAnnealingWarmRestartsOptions::cycle_at(std::int64_t step) const {
  if (T_mult == 1) return {step % T_0, T_0};
  std::int64_t length = T_0;
  for (; step >= length; length *= T_mult) step -= length;
  return {step, length};
}

double CosineAnnealingWarmRestartsOptions::next_lr(std::int64_t step, double, double base_lr) const {
  const auto [step_in_cycle, length] = cycle_at(step);
  return eta_min + (base_lr - eta_min) * one_plus_cos(step_in_cycle, length) / 2.0;
}

// PyTorch's scheduler needs both to resume.
void CosineAnnealingWarmRestarts::save_state(Value& state) const {
  FormulaLr::save_state(state);
  const auto [step_in_cycle, length] = options().cycle_at(std::max<std::int64_t>(last_epoch(), 0));
  state["T_cur"] = step_in_cycle;
  state["T_i"] = length;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ConstantLr>, "ConstantLR", "A reduced rate for the first steps");

void ConstantLrOptions::declare(OptionList<ConstantLrOptions>& options) {
  options.add(&ConstantLrOptions::factor, "Factor of the first steps").min(0.0).max(1.0);
  options.add(&ConstantLrOptions::total_iters, "Steps with the factor").min(0);
}

double ConstantLrOptions::next_lr(std::int64_t step, double lr, double base_lr) const {
  if (step == 0) return lr * factor;
  if (step != total_iters) return lr;
  // PyTorch divides by the factor, and so cannot come back from a factor of zero.
  return factor == 0.0 ? base_lr : lr * (1.0 / factor);
}

double ConstantLrOptions::first_lr(double base_lr) const { return total_iters <= 0 ? base_lr : base_lr * factor; }

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LinearLr>, "LinearLR", "Goes linearly from one factor to another");

void LinearLrOptions::declare(OptionList<LinearLrOptions>& options) {
  options.add(&LinearLrOptions::start_factor, "Factor of the first step").above(0.0).max(1.0);
  options.add(&LinearLrOptions::end_factor, "Factor after the last step").min(0.0).max(1.0);
  options.add(&LinearLrOptions::total_iters, "Steps from the one to the other").min(0);
}

double LinearLrOptions::next_lr(std::int64_t step, double lr, double) const {
  if (step == 0) return lr * start_factor;
  if (step > total_iters) return lr;
  const double growth = end_factor - start_factor;
  const double past = static_cast<double>(total_iters) * start_factor + static_cast<double>(step - 1) * growth;
  return lr * (1.0 + growth / past);
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<PolynomialLr>, "PolynomialLR", "Falls to zero along a polynomial");

void PolynomialLrOptions::declare(OptionList<PolynomialLrOptions>& options) {
  options.add(&PolynomialLrOptions::total_iters, "Steps until the rate is zero. Unset: all of training").min(0);
  options.add(&PolynomialLrOptions::power, "Power of the polynomial");
}

PolynomialLrOptions PolynomialLrOptions::completed(const ScheduleLength& length) const {
  return {.total_iters = length.unless(total_iters, kName, "total_iters"), .power = power};
}

double PolynomialLrOptions::next_lr(std::int64_t step, double lr, double) const {
  if (step == 0 || step > *total_iters) return lr;
  const auto total = static_cast<double>(*total_iters);
  const auto now = static_cast<double>(step);
  return lr * std::pow((1.0 - now / total) / (1.0 - (now - 1.0) / total), power);
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<WarmupCosineLr>, "WarmupCosineLR",
                "Rises linearly, then falls along half a cosine");

void WarmupCosineLrOptions::declare(OptionList<WarmupCosineLrOptions>& options) {
  using Options = WarmupCosineLrOptions;
  options.add(&Options::warmup_steps, "Steps in which the rate rises").min(0);
  options.add(&Options::total_steps, "Step from which on the rate is the lowest. Unset: all of training").min(1);
  options.add(&Options::start_factor, "Factor of the rate at step 0").min(0.0).max(1.0);
  options.add(&Options::min_lr, "Lowest rate").min(0.0);
  options.add(&Options::min_lr_ratio, "Lowest rate, relative to the initial one").min(0.0).max(1.0);
  options.rule({"min_lr", "min_lr_ratio"}, [](const Options& cosine) {
    return cosine.min_lr == 0.0 || cosine.min_lr_ratio == 0.0 ? "" : "give min_lr or min_lr_ratio, not both";
  });
  options.rule({"warmup_steps", "total_steps"}, [](const Options& cosine) {
    return !cosine.total_steps || cosine.warmup_steps < *cosine.total_steps ? "" : "warmup_steps must be below total_steps";
  });
}

WarmupCosineLrOptions WarmupCosineLrOptions::completed(const ScheduleLength& length) const {
  WarmupCosineLrOptions options = *this;
  // A run that ends within the warmup, such as one to try a program, never reaches the cosine.
  if (!total_steps) options.total_steps = std::max(length.unless(total_steps, kName, "total_steps"), warmup_steps + 1);
  return options;
}

double WarmupCosineLrOptions::next_lr(std::int64_t step, double, double base_lr) const {
  if (step < warmup_steps) {
    return base_lr * (start_factor + (1.0 - start_factor) * static_cast<double>(step) / static_cast<double>(warmup_steps));
  }
  const double lowest = min_lr_ratio > 0.0 ? min_lr_ratio * base_lr : min_lr;
  const std::int64_t length = *total_steps - warmup_steps;
  return lowest + (base_lr - lowest) * one_plus_cos(std::min(step - warmup_steps, length), length) / 2.0;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LambdaLr>, "LambdaLR",
                "The initial rate times an expression of the step");
LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiplicativeLr>, "MultiplicativeLR",
                "Multiplies the rate at every step by an expression of the step");

namespace {

constexpr const char* kFactorHelp =
    "as an expression of epoch or step, both the number of the step: '0.95 ** epoch'; a list has one for each parameter group";

template <class Options>
std::vector<std::function<double(std::int64_t)>> functions_of(const Options& options, std::size_t groups) {
  std::vector<std::function<double(std::int64_t)>> functions;
  const auto expressions = options.lr_lambda.expand(groups, format("{}: lr_lambda", Options::kName));
  for (const LrExpression& expression : expressions) functions.emplace_back(expression);
  return functions;
}

}  // namespace

void LambdaLrOptions::declare(OptionList<LambdaLrOptions>& options) {
  options.add(&LambdaLrOptions::lr_lambda, std::string("Factor of the initial rate, ") + kFactorHelp).required();
}
void MultiplicativeLrOptions::declare(OptionList<MultiplicativeLrOptions>& options) {
  options.add(&MultiplicativeLrOptions::lr_lambda, std::string("Factor of each step, ") + kFactorHelp).required();
}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, const Factor& lr_lambda)
    : FunctionLr(optimizer, std::vector<Factor>(optimizer.param_groups().size(), lr_lambda)) {}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, const OptionsType& options)
    : FunctionLr(optimizer, functions_of(options, optimizer.param_groups().size())) {}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : SteppedLrScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  if (lr_lambdas_.size() != group_count()) {
    throw MisuseError(
        format("{} has {} functions, but the optimizer has {} parameter groups: give one function, or one for each group.",
               OptionsType::kName, lr_lambdas_.size(), group_count()));
  }
  start();
}

template <class OptionsType>
double FunctionLr<OptionsType>::next_lr(std::size_t group, double lr) {
  if constexpr (std::is_same_v<OptionsType, LambdaLrOptions>) return base_lr(group) * lr_lambdas_[group](last_epoch());
  return last_epoch() == 0 ? lr : lr * lr_lambdas_[group](last_epoch());
}

// Within a sequence MultiplicativeLR continues from the rate that the schedule before has left, as PyTorch's does.
template <class OptionsType>
double FunctionLr<OptionsType>::first_lr(std::size_t group) const {
  const bool is_of_initial = std::is_same_v<OptionsType, LambdaLrOptions>;
  return (is_of_initial ? base_lr(group) : get_lr(optimizer().param_groups()[group])) * lr_lambdas_[group](0);
}

// As PyTorch does: functions are not saved.
template <class OptionsType>
void FunctionLr<OptionsType>::save_state(Value& state) const {
  state["lr_lambdas"] = Value(Value::List(lr_lambdas_.size()));
}

template class FunctionLr<LambdaLrOptions>;
template class FunctionLr<MultiplicativeLrOptions>;

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<SwaLr>, "SWALR", "Goes to a constant rate, for averages of weights");

void SwaLrOptions::declare(OptionList<SwaLrOptions>& options) {
  options.add(&SwaLrOptions::swa_lr, "Rate at the end; a list gives one for each parameter group").required();
  options.add(&SwaLrOptions::anneal_epochs, "Steps until the rate is swa_lr").min(0);
  options.add(&SwaLrOptions::anneal_strategy, "Shape of the change");
}

void SwaLrOptions::check_groups(std::size_t groups) const { swa_lr.expand(groups, "SWALR: swa_lr"); }

SwaLr::SwaLr(torch::optim::Optimizer& optimizer, const SwaLrOptions& options)
    : SteppedLrSchedulerWith("SWALR", optimizer, options) {
  start();
}

double SwaLr::next_lr(std::size_t group, double lr) { return lr_at(group, last_epoch(), lr); }

double SwaLr::first_lr(std::size_t group) const { return lr_at(group, 0, get_lr(optimizer().param_groups()[group])); }

double SwaLr::lr_at(std::size_t group, std::int64_t step, double lr) const {
  const auto length = static_cast<double>(std::max<std::int64_t>(options().anneal_epochs, 1));
  if (options().anneal_epochs == 0) step = std::max<std::int64_t>(step, 1);
  const auto part_at = [&](std::int64_t at) {
    const double part = std::clamp(static_cast<double>(at) / length, 0.0, 1.0);
    return options().anneal_strategy == AnnealStrategy::kLinear ? part : (1.0 - std::cos(std::numbers::pi * part)) / 2.0;
  };
  const double swa_lr = options().swa_lr.of(group);
  const double before = part_at(step - 1);
  const double part = part_at(step);
  // Others may have changed the rate since: the schedule continues from it.
  const double initial = before == 1.0 ? swa_lr : (lr - before * swa_lr) / (1.0 - before);
  return swa_lr * part + initial * (1.0 - part);
}

// PyTorch's keys; it stores swa_lr in the optimizer's groups.
void SwaLr::save_state(Value& state) const {
  const Value options = write_options(this->options());
  state["swa_lr"] = options.at("swa_lr");
  state["anneal_epochs"] = options.at("anneal_epochs");
  state["_anneal_strategy"] = options.at("anneal_strategy");
}

void SwaLr::load_state(const Value& state) {
  Value saved = write_options(options());
  if (const Value* swa_lr = state.find("swa_lr")) saved["swa_lr"] = *swa_lr;
  saved["anneal_epochs"] = state.at("anneal_epochs");
  saved["anneal_strategy"] = state.at("_anneal_strategy");
  SteppedLrSchedulerWith::load_state(saved);
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ReduceLrOnPlateau>, "ReduceLROnPlateau",
                "Multiplies the rate when a metric stops improving");

void ReduceLrOnPlateauOptions::declare(OptionList<ReduceLrOnPlateauOptions>& options) {
  using Options = ReduceLrOnPlateauOptions;
  options.add(&Options::mode, "Whether a smaller or a larger metric is better");
  options.add(&Options::factor, "Factor of each reduction").min(0).below(1.0);
  options.add(&Options::patience, "Steps without improvement that are tolerated").min(0);
  options.add(&Options::threshold, "Smallest change that counts as an improvement");
  options.add(&Options::threshold_mode, "Threshold relative to the best metric, or absolute");
  options.add(&Options::cooldown, "Steps after a reduction in which nothing is counted").min(0);
  options.add(&Options::min_lr, "Lowest rate; a list gives one for each parameter group");
  options.add(&Options::eps, "A reduction smaller than this is not made");
}

ReduceLrOnPlateau::ReduceLrOnPlateau(torch::optim::Optimizer& optimizer, const ReduceLrOnPlateauOptions& options)
    : optimizer_(optimizer), options_(checked("ReduceLROnPlateau", options)), last_lr_(get_lrs(optimizer)) {
  options_.min_lr.expand(last_lr_.size(), "ReduceLROnPlateau: min_lr");
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == MonitorMode::kMin ? infinity : -infinity;
}

void ReduceLrOnPlateau::step(std::optional<double> metric) {
  if (!metric) {
    throw MisuseError("ReduceLROnPlateau needs a metric at each step: set `monitor` to the key of a logged value.");
  }
  ++last_epoch_;
  if (is_better(*metric)) {
    best_ = *metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > options_.patience) {
    reduce();
    cooldown_left_ = options_.cooldown;
    bad_epochs_ = 0;
  }
  last_lr_ = get_lrs(optimizer_);
}

bool ReduceLrOnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == ThresholdMode::kRelative;
  if (options_.mode == MonitorMode::kMin) {
    return metric < (relative ? best_ * (1.0 - options_.threshold) : best_ - options_.threshold);
  }
  return metric > (relative ? best_ * (options_.threshold + 1.0) : best_ + options_.threshold);
}

void ReduceLrOnPlateau::reduce() {
  auto& groups = optimizer_.param_groups();
  const std::vector<double> min_lrs = options_.min_lr.expand(groups.size(), "ReduceLROnPlateau: min_lr");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const double lr = get_lr(groups[group]);
    const double reduced = std::max(lr * options_.factor, min_lrs[group]);
    if (lr - reduced > options_.eps) set_lr(groups[group], reduced);
  }
}

Value ReduceLrOnPlateau::state_dict() const {
  Value state = write_options(options_);
  state["best"] = best_;
  state["num_bad_epochs"] = bad_epochs_;
  state["cooldown_counter"] = cooldown_left_;
  state["last_epoch"] = last_epoch_;
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  return state;
}

void ReduceLrOnPlateau::load_state_dict(const Value& state) {
  auto options = detail::options_in_state<Options>(state);
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  const double best = state.at("best").as_double();
  const std::int64_t bad_epochs = state.at("num_bad_epochs").as_int();
  const std::int64_t cooldown_left = state.at("cooldown_counter").as_int();
  last_epoch_ = state.at("last_epoch").as_int();
  options_ = std::move(options);
  last_lr_ = std::move(last_lr);
  best_ = best;
  bad_epochs_ = bad_epochs;
  cooldown_left_ = cooldown_left;
}

}  // namespace levin
