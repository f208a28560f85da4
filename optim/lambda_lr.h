#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/options.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

/// Expressions of the step, such as "0.95 ** epoch": one for all parameter groups of an optimizer, or a list with one for each.
/// They have Python's operators + - * / // % ** and parentheses, the functions min, max, sqrt, exp and cos, and the names pi,
/// epoch and step; the last two are the number of the step, from 0 on, whatever the interval of the scheduler is.
class LEVIN_API StepExpressions {
 public:
  StepExpressions() = default;
  StepExpressions(const char* text) : StepExpressions(std::string(text)) {}
  StepExpressions(std::string text) : texts_{std::move(text)} {}
  StepExpressions(std::initializer_list<std::string> texts) : texts_(texts), is_list_(true) {}
  explicit StepExpressions(std::vector<std::string> texts) : texts_(std::move(texts)), is_list_(true) {}

  bool is_list() const { return is_list_; }
  const std::vector<std::string>& texts() const { return texts_; }
  /// One function for each of `groups` groups. Throws ConfigError for a text that is no expression or is longer than 1000
  /// characters, and for a list of another length. A function throws MisuseError at a step where its value is not finite.
  std::vector<std::function<double(std::int64_t)>> functions(std::size_t groups) const;

 private:
  std::vector<std::string> texts_ = {""};
  bool is_list_ = false;
};

template <>
struct LEVIN_API OptionType<StepExpressions> {
  static StepExpressions read(const Value& value);
  static Value write(const StepExpressions& expressions);
  static std::string name() { return "expression or list of expressions"; }
  static Value schema();
};

/// Base of the schedules that users write as functions of the step.
class LEVIN_API FunctionLr : public SteppedLrScheduler {
 public:
  /// The factor at a step; steps count from 0.
  using Factor = std::function<double(std::int64_t)>;

 protected:
  /// One function for all groups, or one for each. Throws MisuseError when their number differs.
  FunctionLr(const char* class_name, torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);
  FunctionLr(torch::optim::Optimizer& optimizer, const StepExpressions& expressions);
  double factor(std::size_t group, std::int64_t step) const { return lr_lambdas_[group](step); }

 private:
  bool takes_new_groups() const override { return false; }
  void save_state(Value& state) const override;

  std::vector<Factor> lr_lambdas_;
};

struct LEVIN_API LambdaLrOptions {
  using Scheduler = class LambdaLr;
  StepExpressions lr_lambda = {};
  static void declare(OptionList<LambdaLrOptions>& options);
};

/// The initial rate times a function of the step.
class LEVIN_API LambdaLr final : public FunctionLr {
 public:
  using Options = LambdaLrOptions;
  LambdaLr(torch::optim::Optimizer& optimizer, Factor lr_lambda);
  /// One function for each parameter group. Throws MisuseError when their number differs.
  LambdaLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);
  /// Functions as expressions.
  LambdaLr(torch::optim::Optimizer& optimizer, const LambdaLrOptions& options);

 private:
  double next_lr(std::size_t group, double) override { return base_lr(group) * factor(group, last_epoch()); }
  double first_lr(std::size_t group) const override { return base_lr(group) * factor(group, 0); }
};

struct LEVIN_API MultiplicativeLrOptions {
  using Scheduler = class MultiplicativeLr;
  StepExpressions lr_lambda = {};
  static void declare(OptionList<MultiplicativeLrOptions>& options);
};

/// Multiplies the rate at each step by a function of the step, from step 1 on.
class LEVIN_API MultiplicativeLr final : public FunctionLr {
 public:
  using Options = MultiplicativeLrOptions;
  MultiplicativeLr(torch::optim::Optimizer& optimizer, Factor lr_lambda);
  /// One function for each parameter group. Throws MisuseError when their number differs.
  MultiplicativeLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);
  /// Functions as expressions.
  MultiplicativeLr(torch::optim::Optimizer& optimizer, const MultiplicativeLrOptions& options);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
};

}  // namespace levin
