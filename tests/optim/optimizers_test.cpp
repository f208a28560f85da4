#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/optim/optimizers.h"
#include "optim/builtin_optimizers.h"
#include "optim/reference_steps.h"
#include "support/file_text.h"
#include "support/heavy_ball.h"

using namespace levin;
using Catch::Matchers::Contains;

namespace {

std::vector<at::Tensor> parameters() { return {torch::zeros({2}, torch::requires_grad())}; }

std::shared_ptr<torch::optim::Optimizer> made(const char* name, Value::Map init_args, std::vector<at::Tensor> its_parameters) {
  return optimizer_factory(name, Value(std::move(init_args)))->make(std::move(its_parameters));
}

std::vector<at::Tensor> two_parameters() { return {torch::ones({2}).requires_grad_(), torch::ones({3, 2}).requires_grad_()}; }

void give(torch::optim::Optimizer& optimizer, double gradient) {
  for (at::Tensor& parameter : optimizer.param_groups()[0].params())
    parameter.mutable_grad() = torch::full_like(parameter, gradient);
}

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

// What make_reference.py recorded of PyTorch's own optimizers.
const Value& recorded() {
  static const Value document = parse_json(test::read_text(LEVIN_SOURCE_DIR "/tests/optim/optimizer_reference.json"));
  return document;
}

double distance(const at::Tensor& tensor, const Value& numbers) {
  std::vector<double> expected;
  for (const Value& number : numbers.as_list()) expected.push_back(number.as_double());
  REQUIRE(tensor.numel() == static_cast<std::int64_t>(expected.size()));
  return (tensor.detach().flatten().to(torch::kDouble) - torch::tensor(expected, torch::kDouble)).abs().max().item<double>();
}

/// Muon multiplies matrices in bfloat16, whose last digit depends on the processor.
double tolerance(const std::string& kind) { return kind == "Muon" ? 1e-3 : 1e-6; }

std::shared_ptr<torch::optim::Optimizer> made(const Value& test, Tensors its_parameters) {
  return optimizer_factory(test.at("optimizer").as_string(), test.at("options"))->make(std::move(its_parameters));
}

std::string title_of(const Value& test) { return test.at("optimizer").as_string() + " " + to_json(test.at("options")); }

}  // namespace

TEST_CASE("an optimizer made from YAML has PyTorch's defaults, and every argument that is given") {
  const auto check = [](const char* name, const auto& expected, Value::Map init_args = {}) {
    INFO(name);
    const auto optimizer = made(name, std::move(init_args), parameters());
    CHECK(std::string(name).ends_with(optimizer_class_name(*optimizer)));
    const auto& options = optimizer->param_groups().at(0).options();
    CHECK(dynamic_cast<const std::decay_t<decltype(expected)>&>(options) == expected);
  };
  namespace optim = torch::optim;
  check("SGD", optim::SGDOptions(1e-3));
  check("Adam", optim::AdamOptions(1e-3));
  check("AdamW", optim::AdamWOptions(1e-3).weight_decay(0.01));
  check("RMSprop", optim::RMSpropOptions(0.01));
  check("Adagrad", optim::AdagradOptions(0.01).eps(1e-10));
  check("LBFGS", optim::LBFGSOptions(1).max_eval(25));
  check("torch.optim.Adam", optim::AdamOptions(0.5).betas({0.5, 0.6}).eps(1e-3).weight_decay(0.1).amsgrad(true),
        {{"lr", 0.5}, {"betas", Value::List{0.5, 0.6}}, {"eps", 1e-3}, {"weight_decay", 0.1}, {"amsgrad", true}});
  check("SGD", optim::SGDOptions(1.0).momentum(0.9).weight_decay(0.1).nesterov(true),
        {{"lr", 1}, {"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", true}});
  check("RMSprop", optim::RMSpropOptions(0.01).alpha(0.5).eps(0.1).momentum(0.2).centered(true).weight_decay(0.3),
        {{"alpha", 0.5}, {"eps", 0.1}, {"momentum", 0.2}, {"centered", true}, {"weight_decay", 0.3}});
  check("Adagrad", optim::AdagradOptions(0.01).lr_decay(0.5).initial_accumulator_value(0.1).eps(0.2),
        {{"lr_decay", 0.5}, {"initial_accumulator_value", 0.1}, {"eps", 0.2}});
  check("LBFGS",
        optim::LBFGSOptions(1).max_iter(4).max_eval(5).history_size(3).line_search_fn("strong_wolfe").tolerance_grad(0.1),
        {{"max_iter", 4}, {"history_size", 3}, {"line_search_fn", "strong_wolfe"}, {"tolerance_grad", 0.1}});
}

TEST_CASE("a wrong argument is a configuration error") {
  const auto refused = [](const char* name, Value::Map init_args) {
    CHECK_THROWS_AS(made(name, std::move(init_args), parameters()), ConfigError);
  };
  refused("Adam", {{"betas", Value::List{0.9}}});
  refused("Adam", {{"betas", Value::List{0.9, 1.0}}});
  refused("Adam", {{"beta", 0.9}});
  refused("LBFGS", {{"line_search_fn", "weak"}});
  refused("Adamm", {});
  CHECK_THROWS_AS(made("Adam", {}, {}), MisuseError);
}

TEST_CASE("a user's optimizer that names options and state steps, and resumes from a checkpoint") {
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
  CHECK_THROWS_WITH(Rprop(two_parameters(), {.etas = {1.5, 2.0}}), Contains("etas must be one number between 0 and 1"));
  CHECK_THROWS_WITH(Lion(two_parameters(), {.betas = {0.9, 1.0}}), Contains("betas must be two numbers"));
  CHECK_THROWS_WITH(Adafactor(two_parameters(), {.d = 0.5}), Contains("d: must be at least 1"));
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
  CHECK_THROWS_WITH(lion.step(), Contains("Lion got a gradient that is sparse"));
  SparseAdam sparse_adam({table});
  sparse_adam.step();
  CHECK(table.select(0, 0).equal(torch::ones({2})));
  CHECK_FALSE(table.select(0, 1).equal(torch::ones({2})));
  table.mutable_grad() = torch::ones({5, 2});
  CHECK_THROWS_WITH(sparse_adam.step(), Contains("SparseAdam got a gradient that is dense") && Contains("Adam, or"));
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

TEST_CASE("the class name of an optimizer is PyTorch's, or the user's, without namespaces") {
  CHECK(optimizer_class_name(mine::Lion(parameters(), 0.1)) == "Lion");
  CHECK(optimizer_class_name(Tagged<std::string>(parameters(), 0.1)).starts_with("Tagged<"));
}

TEST_CASE("rates, momenta, betas and weight decay are read and set where an optimizer has them") {
  torch::optim::SGD sgd(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::AdamW adamw(parameters(), torch::optim::AdamWOptions(0.2));
  torch::optim::LBFGS lbfgs(parameters());
  torch::optim::Adagrad adagrad(parameters());
  Muon muon({torch::ones({2, 2}).requires_grad_()});
  Lion lion(parameters());
  for (torch::optim::Optimizer* optimizer :
       std::initializer_list<torch::optim::Optimizer*>{&sgd, &adamw, &lbfgs, &adagrad, &muon, &lion}) {
    set_lr(optimizer->param_groups()[0], 0.25);
    CHECK(get_lrs(*optimizer) == std::vector<double>{0.25});
  }
  for (torch::optim::Optimizer* optimizer : std::initializer_list<torch::optim::Optimizer*>{&sgd, &muon}) {
    set_momentum(optimizer->param_groups()[0], 0.5);
    CHECK(get_momentum(optimizer->param_groups()[0]) == 0.5);
    CHECK_FALSE(get_betas(optimizer->param_groups()[0]));
  }
  for (torch::optim::Optimizer* optimizer : std::initializer_list<torch::optim::Optimizer*>{&adamw, &lion}) {
    set_betas(optimizer->param_groups()[0], {0.7, 0.8});
    CHECK(get_betas(optimizer->param_groups()[0]) == std::pair(0.7, 0.8));
    CHECK_FALSE(get_momentum(optimizer->param_groups()[0]));
    CHECK_THROWS_WITH(set_momentum(optimizer->param_groups()[0], 0.1), Contains("has no momentum to set"));
  }
  CHECK_THROWS_AS(set_momentum(adagrad.param_groups()[0], 0.5), MisuseError);
  CHECK_THROWS_AS(set_betas(lbfgs.param_groups()[0], {0.5, 0.5}), MisuseError);
  CHECK(get_weight_decay(muon.param_groups()[0]) == 0.1);
  CHECK(get_weight_decay(levin::AdamW(parameters()).param_groups()[0]) == 0.01);
  CHECK_FALSE(get_weight_decay(lbfgs.param_groups()[0]));
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

TEST_CASE("every optimizer that LibTorch lacks comes to PyTorch's weights and state") {
  REQUIRE(recorded().at("cases").size() >= 38);
  for (const Value& test : recorded().at("cases").as_list()) {
    INFO(title_of(test));
    const std::string kind = test.at("optimizer").as_string();
    const Tensors parameters = reference_parameters(kind);
    const auto optimizer = made(test, parameters);
    for (int step = 0; step < kReferenceSteps; ++step) {
      take_step(*optimizer, step);
      const Value* weights = test.at("weights").find(std::to_string(step));
      if (weights == nullptr) continue;
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        INFO("parameter " << number << ", step " << step);
        CHECK(distance(parameters[number], weights->as_list()[number]) < tolerance(kind));
      }
    }
    Checkpoint checkpoint;
    save_optimizer(*optimizer, 0, checkpoint);
    const Value& saved = checkpoint.manifest.at("optimizer_states").as_list()[0].at("state");
    for (std::size_t number = 0; number < parameters.size(); ++number) {
      const Value& numbers = saved.at(std::to_string(number));
      for (const auto& [name, expected] : test.at("state").as_list()[number].as_map()) {
        INFO("state " << name << " of parameter " << number);
        if (const Value* own = numbers.find(name)) {
          CHECK(own->as_double() == Approx(expected.as_list().at(0).as_double()).epsilon(1e-5));
        } else {
          CHECK(distance(checkpoint.tensors.at("optimizer_states.0.state." + std::to_string(number) + "." + name), expected) <
                10 * tolerance(kind));
        }
      }
    }
  }
}

TEST_CASE("LAMB and LARS step in proportion to the size of a parameter, and by the rate alone from zero") {
  const auto moved = [](auto optimizer_of, double weight) {
    const at::Tensor parameter = torch::full({4}, weight).requires_grad_();
    auto optimizer = optimizer_of(parameter);
    parameter.mutable_grad() = torch::full({4}, 0.001);
    optimizer.step();
    return (parameter.detach() - weight).norm().template item<double>();
  };
  const auto lamb = [](const at::Tensor& parameter) { return LAMB({parameter}, {.lr = 0.1, .weight_decay = 0}); };
  CHECK(moved(lamb, 3.0) == Approx(0.1 * 6.0));
  CHECK(moved(lamb, 0.0) == Approx(0.1 * 2.0).epsilon(1e-2));
  const auto lars = [](const at::Tensor& parameter) { return LARS({parameter}, {.lr = 0.1, .trust_coefficient = 0.02}); };
  CHECK(moved(lars, 3.0) == Approx(0.1 * 0.02 * 6.0));
  CHECK(moved(lars, 0.0) == Approx(0.1 * 0.002));
}

TEST_CASE("an optimizer that LibTorch lacks resumes from a checkpoint to the same bits") {
  for (const Value& test : recorded().at("cases").as_list()) {
    INFO(title_of(test));
    const std::string kind = test.at("optimizer").as_string();
    const Tensors whole = reference_parameters(kind);
    const auto optimizer = made(test, whole);
    const Tensors resumed = reference_parameters(kind);
    const auto other = optimizer_factory(kind, Value(Value::Map{}))->make(resumed);
    for (int step = 0; step < kReferenceSteps; ++step) {
      if (step == 25) resume_optimizer(*optimizer, *other);
      take_step(*optimizer, step);
      if (step >= 25) take_step(*other, step);
    }
    for (std::size_t number = 0; number < whole.size(); ++number) CHECK(whole[number].equal(resumed[number]));
  }
}
