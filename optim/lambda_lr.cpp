#include "levin/optim/lambda_lr.h"

#include <torch/optim/optimizer.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/lr_expression.h"

namespace levin {

std::vector<std::function<double(std::int64_t)>> StepExpressions::functions(std::size_t groups) const {
  if (is_list_ && texts_.size() != groups) {
    throw ConfigError(
        format("lr_lambda has {} expressions, but the optimizer has {} parameter groups: give one expression, or one for each "
               "group.",
               texts_.size(), groups));
  }
  std::vector<std::function<double(std::int64_t)>> functions;
  for (const std::string& text : texts_) functions.emplace_back(LrExpression(text));
  if (!is_list_) functions.resize(groups, functions.front());
  return functions;
}

StepExpressions OptionType<StepExpressions>::read(const Value& value) {
  if (!value.is_list()) return OptionType<LrExpression>::read(value).text();
  std::vector<std::string> texts;
  for (const Value& text : value.as_list()) texts.push_back(OptionType<LrExpression>::read(text).text());
  return StepExpressions(std::move(texts));
}

Value OptionType<StepExpressions>::write(const StepExpressions& expressions) {
  if (expressions.is_list()) return OptionType<std::vector<std::string>>::write(expressions.texts());
  return expressions.texts().front();
}

Value OptionType<StepExpressions>::schema() {
  const Value one = OptionType<LrExpression>::schema();
  return detail::any_of({one, Value::Map{{"type", "array"}, {"items", one}}});
}

FunctionLr::FunctionLr(const char* class_name, torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : SteppedLrScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  if (lr_lambdas_.size() != group_count()) {
    throw MisuseError(
        format("{} has {} functions, but the optimizer has {} parameter groups: give one function, or one for each group.",
               class_name, lr_lambdas_.size(), group_count()));
  }
}

FunctionLr::FunctionLr(torch::optim::Optimizer& optimizer, const StepExpressions& expressions)
    : SteppedLrScheduler(optimizer), lr_lambdas_(expressions.functions(group_count())) {}

// As PyTorch does: functions are not saved.
void FunctionLr::save_state(Value& state) const { state["lr_lambdas"] = Value(Value::List(lr_lambdas_.size())); }

namespace {

// NOLINTNEXTLINE(performance-unnecessary-value-param): a function object is handed over by value, as the standard library does
std::vector<FunctionLr::Factor> one_for_each_group(const torch::optim::Optimizer& optimizer, FunctionLr::Factor factor) {
  return std::vector<FunctionLr::Factor>(optimizer.param_groups().size(), factor);
}

constexpr const char* kFactorHelp =
    "as an expression of epoch or step, both the number of the step: '0.95 ** epoch'; a list has one for each parameter group";

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LambdaLr>, "LambdaLR",
                "The initial rate times an expression of the step");

void LambdaLrOptions::declare(OptionList<LambdaLrOptions>& options) {
  options.add(&LambdaLrOptions::lr_lambda, std::string("Factor of the initial rate, ") + kFactorHelp).required();
}

LambdaLr::LambdaLr(torch::optim::Optimizer& optimizer, Factor lr_lambda)
    : LambdaLr(optimizer, one_for_each_group(optimizer, std::move(lr_lambda))) {}

LambdaLr::LambdaLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : FunctionLr("LambdaLR", optimizer, std::move(lr_lambdas)) {
  start();
}

LambdaLr::LambdaLr(torch::optim::Optimizer& optimizer, const LambdaLrOptions& options)
    : FunctionLr(optimizer, checked("LambdaLR", options).lr_lambda) {
  start();
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiplicativeLr>, "MultiplicativeLR",
                "Multiplies the rate at every step by an expression of the step");

void MultiplicativeLrOptions::declare(OptionList<MultiplicativeLrOptions>& options) {
  options.add(&MultiplicativeLrOptions::lr_lambda, std::string("Factor of each step, ") + kFactorHelp).required();
}

MultiplicativeLr::MultiplicativeLr(torch::optim::Optimizer& optimizer, Factor lr_lambda)
    : MultiplicativeLr(optimizer, one_for_each_group(optimizer, std::move(lr_lambda))) {}

MultiplicativeLr::MultiplicativeLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : FunctionLr("MultiplicativeLR", optimizer, std::move(lr_lambdas)) {
  start();
}

MultiplicativeLr::MultiplicativeLr(torch::optim::Optimizer& optimizer, const MultiplicativeLrOptions& options)
    : FunctionLr(optimizer, checked("MultiplicativeLR", options).lr_lambda) {
  start();
}

double MultiplicativeLr::next_lr(std::size_t group, double lr) {
  return last_epoch() == 0 ? lr : lr * factor(group, last_epoch());
}

// Within a sequence it goes on from the rate that the schedule before has left, as PyTorch's does.
double MultiplicativeLr::first_lr(std::size_t group) const {
  return get_lr(optimizer().param_groups()[group]) * factor(group, 0);
}

}  // namespace levin
