#include "levin/core/optimizers/parameter_groups.h"

#include <torch/torch.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "levin/core/base/error.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "support/error_of.h"
#include "support/sign_descent.h"

using namespace levin;
using Catch::Matchers::Contains;
using Names = std::vector<std::vector<std::string>>;

namespace {

struct Network : Module {
  Network() {
    register_module("backbone", torch::nn::Linear(2, 3));
    register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({3})));
    register_module("head", torch::nn::Linear(3, 1));
  }
  void freeze_head() {
    for (auto& entry : named_parameters()) {
      if (entry.key().starts_with("head")) entry.value().requires_grad_(false);
    }
  }
  Names names_of(const std::vector<std::vector<at::Tensor>>& groups) const {
    std::map<const at::TensorImpl*, std::string> names;
    for (const auto& entry : named_parameters()) names.emplace(entry.value().unsafeGetTensorImpl(), entry.key());
    Names named;
    for (const auto& group : groups) {
      named.emplace_back();
      for (const at::Tensor& parameter : group) named.back().push_back(names.at(parameter.unsafeGetTensorImpl()));
    }
    return named;
  }
  Names names_of(const torch::optim::Optimizer& optimizer) const {
    std::vector<std::vector<at::Tensor>> groups;
    for (const auto& group : optimizer.param_groups()) groups.push_back(group.params());
    return names_of(groups);
  }
};

ParameterGroup group(NamePatterns parameters, Value::Map options) { return {std::move(parameters), Value(std::move(options))}; }

std::shared_ptr<torch::optim::Optimizer> made(const Network& network, const char* class_path, Value::Map init_args,
                                              ParameterGroupOptions groups) {
  const Value complete = Registry<OptimizerFactory>::instance().complete(class_path, Value(std::move(init_args)));
  groups.check(class_path, complete);
  return grouped_optimizer_factory(class_path, complete, std::move(groups))->make_for(network);
}

template <class Options>
const Options& options_of(const torch::optim::Optimizer& optimizer, std::size_t group) {
  return dynamic_cast<const Options&>(optimizer.param_groups().at(group).options());
}

}  // namespace

TEST_CASE("a pattern is a part of a name, or a regular expression that is searched for in it") {
  for (const auto& [pattern, match, other] :
       std::initializer_list<std::array<const char*, 3>>{{"norm", "layers.0.norm1.weight", "layers.0.weight"},
                                                         {"head.bias", "head.bias", "head_bias"},
                                                         {"^head\\.", "head.bias", "lm.head.bias"},
                                                         {"layers\\.[01]\\.", "layers.1.weight", "layers.2.weight"}}) {
    CHECK(NamePattern(pattern).matches(match));
    CHECK_FALSE(NamePattern(pattern).matches(other));
  }
  CHECK_THROWS_AS(NamePattern(""), ConfigError);
  CHECK_THROWS_WITH(NamePattern("head(", Mark{"run.yaml", 3, 7}),
                    Catch::StartsWith("run.yaml:3:7: 'head(' is not a regular expression"));
  CHECK_THROWS_WITH(NamePattern(std::string(10000, '(')), Contains("longer than 200 characters"));
}

TEST_CASE("parameters are divided by name, in C++ too: the first list that matches has them, the rest comes last") {
  Network network;
  CHECK(network.names_of(parameter_groups(network, {{"bias", "norm"}})) ==
        Names{{"backbone.bias", "norm.weight", "norm.bias", "head.bias"}, {"backbone.weight", "head.weight"}});
  CHECK(network.names_of(parameter_groups(network, {{"^head\\."}, {"bias"}})) ==
        Names{{"head.weight", "head.bias"}, {"backbone.bias", "norm.bias"}, {"backbone.weight", "norm.weight"}});
  CHECK(network.names_of(parameter_groups(network, {})) ==
        Names{{"backbone.weight", "backbone.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"}});
  network.freeze_head();
  CHECK(network.names_of(parameter_groups(network, {{"head"}, {"bias"}})) ==
        Names{{}, {"backbone.bias", "norm.bias"}, {"backbone.weight", "norm.weight"}});
}

TEST_CASE("a parameter that two modules share is in one group") {
  Network network;
  network.register_module("tail", network.named_children()["head"]);
  CHECK(network.names_of(parameter_groups(network, {{"head"}, {"backbone"}})).front() ==
        std::vector<std::string>{"head.weight", "head.bias"});
}

TEST_CASE("a pattern that matches nothing is an error with its line, and a near name") {
  Network network;
  CHECK_THROWS_WITH(parameter_groups(network, {{NamePattern("bias"), NamePattern("nrom", Mark{"run.yaml", 4, 9})}}),
                    "run.yaml:4:9: no parameter's name matches 'nrom'; did you mean 'norm'?");
  CHECK_THROWS_WITH(parameter_groups(network, {{"^decoder\\."}}), Contains("there are backbone.weight, backbone.bias"));
  CHECK_THROWS_WITH(parameter_groups(network, {{"head"}, {"head.bias"}}), Contains("'head.bias' are in earlier groups"));
}

TEST_CASE("groups have separate options, and the first optimizer's state") {
  Network network;
  ParameterGroupOptions groups;
  groups.groups = {group({"bias", "norm"}, {{"weight_decay", 0.0}}), group({"^head\\."}, {{"lr", 0.01}})};
  const auto adam = made(network, "AdamW", {{"lr", 1e-3}, {"weight_decay", 0.1}}, groups);
  CHECK(network.names_of(*adam) ==
        Names{{"backbone.weight"}, {"backbone.bias", "norm.weight", "norm.bias", "head.bias"}, {"head.weight"}});
  CHECK(options_of<torch::optim::AdamWOptions>(*adam, 0) == torch::optim::AdamWOptions(1e-3).weight_decay(0.1));
  CHECK(options_of<torch::optim::AdamWOptions>(*adam, 1) == torch::optim::AdamWOptions(1e-3).weight_decay(0.0));
  CHECK(options_of<torch::optim::AdamWOptions>(*adam, 2) == torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
}

TEST_CASE("no_decay takes the weight decay away in whichever group") {
  Network network;
  ParameterGroupOptions groups;
  groups.no_decay = {"bias", "norm"};
  CHECK(network.names_of(*made(network, "SGD", {{"weight_decay", 0.1}}, groups)) ==
        Names{{"backbone.weight", "head.weight"}, {"backbone.bias", "norm.weight", "norm.bias", "head.bias"}});
  groups.groups = {group({"head"}, {{"lr", 0.5}})};
  const auto sgd = made(network, "SGD", {{"lr", 0.1}, {"weight_decay", 0.1}}, groups);
  CHECK(network.names_of(*sgd) ==
        Names{{"backbone.weight"}, {"backbone.bias", "norm.weight", "norm.bias"}, {"head.weight"}, {"head.bias"}});
  CHECK(options_of<torch::optim::SGDOptions>(*sgd, 1) == torch::optim::SGDOptions(0.1).weight_decay(0.0));
  CHECK(options_of<torch::optim::SGDOptions>(*sgd, 2) == torch::optim::SGDOptions(0.5).weight_decay(0.1));
  CHECK(options_of<torch::optim::SGDOptions>(*sgd, 3) == torch::optim::SGDOptions(0.5).weight_decay(0.0));
}

TEST_CASE("every optimizer steps with groups, those with state from the beginning too, and a user's own has them") {
  const char* name = GENERATE("SGD", "Adam", "AdamW", "RMSprop", "Adagrad");
  INFO(name);
  Network network;
  ParameterGroupOptions groups;
  groups.groups = {group({"bias"}, {{"lr", 0.0}})};
  const auto optimizer = made(network, name, {{"lr", 0.1}}, groups);
  CHECK(optimizer_class_name(*optimizer) == name);
  CHECK(get_lrs(*optimizer) == std::vector<double>{0.1, 0.0});
  std::map<std::string, at::Tensor> before;
  for (auto& entry : network.named_parameters()) {
    before[entry.key()] = entry.value().detach().clone();
    entry.value().mutable_grad() = torch::ones_like(entry.value());
  }
  optimizer->step();
  for (const auto& entry : network.named_parameters()) {
    INFO(entry.key());
    CHECK(entry.value().equal(before[entry.key()]) == entry.key().ends_with("bias"));
  }
  groups.groups = {group({"bias"}, {{"lr", 0.5}})};
  CHECK(get_lrs(*made(network, "SignDescent", {{"lr", 0.25}}, groups)) == std::vector<double>{0.25, 0.5});
}

TEST_CASE("options of a group that the class does not have, or that are out of range, are errors with their line") {
  Network network;
  const auto problem = [&](const char* class_path, Value::Map options, NamePatterns no_decay = {}) {
    ParameterGroupOptions groups;
    groups.no_decay = std::move(no_decay);
    Value marked(std::move(options));
    marked.set_mark(Mark{"run.yaml", 5, 1});
    for (auto& entry : marked.as_map()) entry.second.set_mark(Mark{"run.yaml", 5, 9});
    groups.groups = {{{"bias"}, marked}};
    return test::error_of<ConfigError>([&] { made(network, class_path, {}, groups); });
  };
  CHECK(problem("AdamW", {{"lr", -1.0}}) == "run.yaml:5:9: groups: lr: must be at least 0, got float -1.0");
  CHECK_THAT(problem("SGD", {{"nesterov", true}}), Catch::StartsWith("run.yaml:5:9: groups: nesterov needs a momentum"));
  CHECK_THAT(problem("LBFGS", {{"lr", 0.1}}), Contains("LBFGS takes one group of parameters"));
  CHECK_THAT(problem("LBFGS", {{"lr", 0.1}}, {NamePattern("bias", Mark{"run.yaml", 2, 4})}),
             Catch::StartsWith("run.yaml:2:4: no_decay: LBFGS has no weight_decay"));
}
