#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/optimizers.h"
#include "optim/builtin_optimizers.h"
#include "support/heavy_ball.h"

using namespace levin;
using Catch::Matchers::Contains;

namespace {

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
    CHECK(optimizer_class_name(*optimizer) == name);
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
    CHECK_THROWS_AS(optimizer_factory(name, Value(std::move(init_args)))->make(parameters()), ConfigError);
  };
  refused("SGD", {{"lr", -0.1}});
  refused("SGD", {{"nesterov", true}});
  refused("Adam", {{"betas", Value::List{0.9}}});
  refused("Adam", {{"betas", Value::List{0.9, 1.0}}});
  refused("Adam", {{"beta", 0.9}});
  refused("LBFGS", {{"line_search_fn", "weak"}});
  refused("Adamm", {});
  CHECK_THROWS_AS(optimizer_factory("Adam", kNoArgs)->make({}), MisuseError);
}

namespace {

std::vector<at::Tensor> two_parameters() { return {torch::ones({2}).requires_grad_(), torch::ones({3, 2}).requires_grad_()}; }

void give(torch::optim::Optimizer& optimizer, double gradient) {
  for (at::Tensor& parameter : optimizer.param_groups()[0].params())
    parameter.mutable_grad() = torch::full_like(parameter, gradient);
}

}  // namespace

TEST_CASE("an optimizer of a user's own that names options and state steps, and goes on from a checkpoint") {
  HeavyBall ball(two_parameters(), {.lr = 0.5, .momentum = 0.25});
  for (const double gradient : {1.0, 2.0}) {
    give(ball, gradient);
    ball.step();
  }
  // Momenta 1 and 2.25.
  CHECK(ball.param_groups()[0].params()[1].equal(torch::full({3, 2}, 1 - 0.5 * 1 - 0.5 * 2.25)));
  Checkpoint checkpoint;
  save_optimizer(ball, 0, checkpoint);
  CHECK(checkpoint.tensors.at("optimizer_states.0.state.1.momentum_buffer").equal(torch::full({3, 2}, 2.25)));
  CHECK(checkpoint.manifest.at("optimizer_states").as_list()[0].at("param_groups").as_list()[0] ==
        Value(Value::Map{{"lr", 0.5}, {"momentum", 0.25}, {"params", Value::List{0, 1}}}));

  HeavyBall resumed(two_parameters());
  load_optimizer(resumed, 0, checkpoint);
  CHECK(get_lrs(resumed) == std::vector<double>{0.5});
  CHECK(get_momentum(resumed.param_groups()[0]) == 0.25);
  give(resumed, 0.0);
  resumed.step();
  CHECK(resumed.param_groups()[0].params()[0].equal(torch::full({2}, 1 - 0.5 * 0.25 * 2.25)));
}

TEST_CASE("state of another shape is refused by name") {
  HeavyBall ball(two_parameters());
  give(ball, 1.0);
  ball.step();
  Checkpoint checkpoint;
  save_optimizer(ball, 0, checkpoint);
  HeavyBall other({torch::ones({5}).requires_grad_(), torch::ones({3, 2}).requires_grad_()});
  CHECK_THROWS_WITH(load_optimizer(other, 0, checkpoint), Contains("state.0.momentum_buffer' has shape [2]"));
}

TEST_CASE("options that YAML could not have are refused in C++ too") {
  CHECK_THROWS_WITH(HeavyBall(two_parameters(), {.lr = -1}), Contains("lr: must be at least 0"));
  CHECK_THROWS_WITH(Rprop(two_parameters(), {.etas = {1.5, 2.0}}), Contains("etas must be one number between 0 and 1"));
  CHECK_THROWS_WITH(Lion(two_parameters(), {.betas = {0.9, 1.0}}), Contains("betas must be two numbers"));
  CHECK_THROWS_WITH(Adafactor(two_parameters(), {.d = 0.5}), Contains("d: must be at least 1"));
}

TEST_CASE("momentum, betas and weight decay of every optimizer are read and set by name") {
  Muon muon({torch::ones({2, 2}).requires_grad_()});
  set_momentum(muon.param_groups()[0], 0.5);
  CHECK(get_momentum(muon.param_groups()[0]) == 0.5);
  CHECK(get_weight_decay(muon.param_groups()[0]) == 0.1);
  CHECK_FALSE(get_betas(muon.param_groups()[0]));
  Lion lion(two_parameters());
  set_betas(lion.param_groups()[0], {0.5, 0.6});
  CHECK(get_betas(lion.param_groups()[0]) == std::pair(0.5, 0.6));
  CHECK_THROWS_WITH(set_momentum(lion.param_groups()[0], 0.1), Contains("has no momentum to set"));
  levin::AdamW adamw(two_parameters());
  CHECK(get_weight_decay(adamw.param_groups()[0]) == 0.01);
  CHECK_FALSE(get_weight_decay(torch::optim::LBFGS(two_parameters()).param_groups()[0]));
}

TEST_CASE("every optimizer but LBFGS says that it steps parameters alone") {
  CHECK(steps_parameters_alone(Lion(two_parameters())));
  CHECK(steps_parameters_alone(HeavyBall(two_parameters())));
  CHECK(steps_parameters_alone(levin::SGD(two_parameters(), 0.1)));
  CHECK(steps_parameters_alone(torch::optim::RMSprop(two_parameters())));
  CHECK_FALSE(steps_parameters_alone(torch::optim::LBFGS(two_parameters())));
}

TEST_CASE("sparse and complex gradients, other shapes for Muon, and LibTorch's archives are errors that say so") {
  const at::Tensor table = torch::ones({5, 2}).requires_grad_();
  Lion lion({table});
  table.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1}}), torch::ones({1, 2}), {5, 2});
  CHECK_THROWS_WITH(lion.step(), Contains("Lion has the gradient of a parameter that is sparse"));
  const at::Tensor wave = torch::ones({2}, torch::kComplexFloat).requires_grad_();
  Rprop rprop({wave});
  wave.mutable_grad() = torch::ones_like(wave);
  CHECK_THROWS_WITH(rprop.step(), Contains("that is complex"));
  Muon muon(two_parameters());
  give(muon, 1.0);
  CHECK_THROWS_WITH(muon.step(), Contains("Muon steps matrices, and has a parameter of shape [2]"));
  torch::serialize::OutputArchive archive;
  CHECK_THROWS_WITH(lion.save(archive), Contains("save a checkpoint"));
}

namespace {

namespace mine {
class Lion final : public torch::optim::SGD {
 public:
  using SGD::SGD;
};
}  // namespace mine

template <class Tag>
class Tagged final : public torch::optim::SGD {
 public:
  using SGD::SGD;
};

}  // namespace

TEST_CASE("the class name of an optimizer is PyTorch's, or the user's, without namespaces") {
  CHECK(optimizer_class_name(mine::Lion(parameters(), 0.1)) == "Lion");
  CHECK(optimizer_class_name(Tagged<std::string>(parameters(), 0.1)).starts_with("Tagged<"));
}

TEST_CASE("rates, momenta and betas are read and set where an optimizer has them") {
  torch::optim::SGD sgd(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::AdamW adamw(parameters(), torch::optim::AdamWOptions(0.2));
  torch::optim::LBFGS lbfgs(parameters());
  torch::optim::Adagrad adagrad(parameters());
  for (torch::optim::Optimizer* optimizer : std::initializer_list<torch::optim::Optimizer*>{&sgd, &adamw, &lbfgs, &adagrad}) {
    set_lr(optimizer->param_groups()[0], 0.25);
    CHECK(get_lrs(*optimizer) == std::vector<double>{0.25});
  }
  set_momentum(sgd.param_groups()[0], 0.5);
  CHECK(get_momentum(sgd.param_groups()[0]) == 0.5);
  CHECK_FALSE(get_betas(sgd.param_groups()[0]));
  set_betas(adamw.param_groups()[0], {0.7, 0.8});
  CHECK(get_betas(adamw.param_groups()[0]) == std::pair(0.7, 0.8));
  CHECK_FALSE(get_momentum(adamw.param_groups()[0]));
  CHECK_THROWS_AS(set_momentum(adagrad.param_groups()[0], 0.5), MisuseError);
  CHECK_THROWS_AS(set_betas(lbfgs.param_groups()[0], {0.5, 0.5}), MisuseError);
}

TEST_CASE("zero_grad works on gradients that are views into a bucket, and on those with a graph") {
  at::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  at::Tensor without_grad = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD sgd({weight, without_grad}, 0.1);
  at::Tensor bucket = torch::ones({10});
  weight.mutable_grad() = bucket.narrow(0, 2, 4).view({2, 2});

  zero_grad(sgd, false);
  CHECK(bucket.sum().item<double>() == 6.0);
  CHECK(weight.grad().data_ptr() == bucket.data_ptr<float>() + 2);
  CHECK(weight.grad().sum().item<double>() == 0.0);

  zero_grad(sgd);
  CHECK_FALSE(weight.grad().defined());
  CHECK(bucket.sum().item<double>() == 6.0);

  const auto loss = weight.pow(3).sum();
  loss.backward({}, true, true);
  REQUIRE(weight.grad().grad_fn());
  zero_grad(sgd, false);
  CHECK_FALSE(weight.grad().requires_grad());
  CHECK(weight.grad().sum().item<double>() == 0.0);
}
