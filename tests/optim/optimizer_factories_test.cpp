#include "levin/optim/optimizer_factories.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "optim/builtin_optimizers.h"

namespace {

using levin::Value;

std::vector<at::Tensor> parameters() { return {torch::zeros({2}, torch::requires_grad())}; }

template <class Options>
const Options& options_of(const torch::optim::Optimizer& optimizer) {
  return dynamic_cast<const Options&>(optimizer.param_groups().at(0).options());
}

const Value kNoArgs = Value(Value::Map{});

}  // namespace

TEST_CASE("an optimizer made from YAML without arguments has PyTorch's defaults") {
  const auto made = [](const char* name) {
    auto optimizer = optimizer_factory(name, kNoArgs)->make(parameters());
    CHECK(levin::optimizer_class_name(*optimizer) == name);
    return optimizer;
  };
  CHECK(options_of<torch::optim::SGDOptions>(*made("SGD")) == torch::optim::SGDOptions(1e-3));
  CHECK(options_of<torch::optim::AdamOptions>(*made("Adam")) == torch::optim::AdamOptions(1e-3));
  CHECK(options_of<torch::optim::AdamWOptions>(*made("AdamW")) == torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
  CHECK(options_of<torch::optim::RMSpropOptions>(*made("RMSprop")) == torch::optim::RMSpropOptions(0.01));
  CHECK(options_of<torch::optim::AdagradOptions>(*made("Adagrad")) == torch::optim::AdagradOptions(0.01).eps(1e-10));
  CHECK(options_of<torch::optim::LBFGSOptions>(*made("LBFGS")) == torch::optim::LBFGSOptions(1).max_eval(25));
}

TEST_CASE("every argument of YAML reaches the optimizer") {
  const auto adam = optimizer_factory(
      "torch.optim.Adam",
      Value(
          Value::Map{{"lr", 0.5}, {"betas", Value::List{0.5, 0.6}}, {"eps", 1e-3}, {"weight_decay", 0.1}, {"amsgrad", true}}));
  CHECK(options_of<torch::optim::AdamOptions>(*adam->make(parameters())) ==
        torch::optim::AdamOptions(0.5).betas({0.5, 0.6}).eps(1e-3).weight_decay(0.1).amsgrad(true));
  const auto sgd =
      optimizer_factory("SGD", Value(Value::Map{{"lr", 1}, {"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", true}}));
  CHECK(options_of<torch::optim::SGDOptions>(*sgd->make(parameters())) ==
        torch::optim::SGDOptions(1.0).momentum(0.9).weight_decay(0.1).nesterov(true));
  const auto rmsprop = optimizer_factory(
      "RMSprop", Value(Value::Map{{"alpha", 0.5}, {"eps", 0.1}, {"momentum", 0.2}, {"centered", true}, {"weight_decay", 0.3}}));
  CHECK(options_of<torch::optim::RMSpropOptions>(*rmsprop->make(parameters())) ==
        torch::optim::RMSpropOptions(0.01).alpha(0.5).eps(0.1).momentum(0.2).centered(true).weight_decay(0.3));
  const auto adagrad =
      optimizer_factory("Adagrad", Value(Value::Map{{"lr_decay", 0.5}, {"initial_accumulator_value", 0.1}, {"eps", 0.2}}));
  CHECK(options_of<torch::optim::AdagradOptions>(*adagrad->make(parameters())) ==
        torch::optim::AdagradOptions(0.01).lr_decay(0.5).initial_accumulator_value(0.1).eps(0.2));
  const auto lbfgs = optimizer_factory(
      "LBFGS",
      Value(Value::Map{{"max_iter", 4}, {"history_size", 3}, {"line_search_fn", "strong_wolfe"}, {"tolerance_grad", 0.1}}));
  CHECK(
      options_of<torch::optim::LBFGSOptions>(*lbfgs->make(parameters())) ==
      torch::optim::LBFGSOptions(1).max_iter(4).max_eval(5).history_size(3).line_search_fn("strong_wolfe").tolerance_grad(0.1));
}

TEST_CASE("a wrong argument is a configuration error") {
  const auto refused = [](const char* name, Value::Map init_args) {
    CHECK_THROWS_AS(optimizer_factory(name, Value(std::move(init_args)))->make(parameters()), levin::ConfigError);
  };
  refused("SGD", {{"lr", -0.1}});
  refused("SGD", {{"nesterov", true}});
  refused("Adam", {{"betas", Value::List{0.9}}});
  refused("Adam", {{"betas", Value::List{0.9, 1.0}}});
  refused("Adam", {{"beta", 0.9}});
  refused("LBFGS", {{"line_search_fn", "weak"}});
  refused("Adamm", {});
  CHECK_THROWS_AS(optimizer_factory("Adam", kNoArgs)->make({}), levin::MisuseError);
}

TEST_CASE("every scheduler of PyTorch that YAML can hold is registered") {
  for (const char* name : {"ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LinearLR",
                           "MultiStepLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"}) {
    CHECK(levin::Registry<levin::LrSchedulerFactory>::instance().find(name) != nullptr);
  }
}
