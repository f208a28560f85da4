#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/cyclic_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "optim/builtin_optimizers.h"

// What the references of lr_schedulers_test.cpp do not show: functions in C++, lengths, and what is refused.
using namespace levin;

using Catch::Matchers::Contains;

namespace {

torch::optim::SGD sgd_of(double lr, std::size_t groups = 1) {
  std::vector<torch::optim::OptimizerParamGroup> made;
  for (std::size_t group = 0; group < groups; ++group) {
    made.emplace_back(std::vector<at::Tensor>{torch::zeros({1}, torch::requires_grad())});
  }
  return torch::optim::SGD(made, torch::optim::SGDOptions(lr).momentum(0.9));
}

std::vector<double> rates(LrScheduler& scheduler, int steps) {
  std::vector<double> rates = {scheduler.last_lr().at(0)};
  for (int step = 0; step < steps; ++step) {
    scheduler.step();
    rates.push_back(scheduler.last_lr().at(0));
  }
  return rates;
}

}  // namespace

TEST_CASE("LambdaLr and MultiplicativeLr take a function in C++, an expression, and options in configure_optimizers alike") {
  const auto tenth = [](std::int64_t step) { return 1.0 - static_cast<double>(step) / 10.0; };
  auto one = sgd_of(0.5);
  auto other = sgd_of(0.5);
  MultiplicativeLr by_function(one, tenth);
  const auto by_options = SchedulerMaker(MultiplicativeLr::Options{.lr_lambda = "1 - step / 10"}).make(other);
  const std::vector<double> expected = rates(by_function, 4);
  CHECK(expected == std::vector<double>{0.5, 0.5 * 0.9, 0.5 * 0.9 * 0.8, 0.5 * 0.9 * 0.8 * 0.7, 0.5 * 0.9 * 0.8 * 0.7 * 0.6});
  CHECK(rates(*by_options, 4) == expected);

  auto third = sgd_of(0.5);
  auto fourth = sgd_of(0.5);
  LambdaLr lambda(third, tenth);
  LambdaLr expression(fourth, LambdaLrOptions{.lr_lambda = "1 - epoch / 10"});
  CHECK(rates(lambda, 4) == rates(expression, 4));
  CHECK(lambda.state_dict() == expression.state_dict());
  CHECK(lambda.state_dict().at("lr_lambdas") == Value(Value::List{Value()}));
}

TEST_CASE("one expression for each group, or an error with both numbers") {
  auto two = sgd_of(1.0, 2);
  const LambdaLr scheduler(two, {.lr_lambda = {"0.5", "0.25"}});
  CHECK(get_lrs(two) == std::vector<double>{0.5, 0.25});
  CHECK_THROWS_WITH(LambdaLr(two, {.lr_lambda = {"1", "2", "3"}}),
                    Contains("LambdaLR: lr_lambda has 3 values") && Contains("2 param"));
  CHECK_THROWS_AS(MultiplicativeLr(two, std::vector<MultiplicativeLr::Factor>{}), MisuseError);
  CHECK_THROWS_WITH(LambdaLr(two, LambdaLrOptions{}), Contains("LambdaLR: lr_lambda has 0 values"));
  CHECK_THROWS_WITH(LambdaLr(two, {.lr_lambda = "1 / epoch"}), Contains("'1 / epoch'") && Contains("inf at step 0"));
  two.add_param_group({{torch::zeros({1}, torch::requires_grad())}});
  LambdaLr late(two, [](std::int64_t) { return 1.0; });
  two.add_param_group({{torch::zeros({1}, torch::requires_grad())}});
  CHECK_THROWS_WITH(late.step(), Contains("4 parameter groups"));
}

TEST_CASE("WarmupCosineLr rises to the initial rate, falls to the lowest and stays there") {
  auto sgd = sgd_of(0.8);
  WarmupCosineLr scheduler(sgd, {.warmup_steps = 4, .total_steps = 8, .min_lr = 0.2});
  const std::vector<double> got = rates(scheduler, 10);
  CHECK(got[0] == 0.0);
  CHECK(got[1] == Approx(0.2));
  CHECK(got[3] == Approx(0.6));
  CHECK(got[4] == 0.8);
  CHECK(got[6] == Approx(0.5));
  CHECK(got[8] == Approx(0.2));
  CHECK(got[10] == Approx(0.2));

  // Until its end it is PyTorch's LinearLR and CosineAnnealingLR in sequence.
  auto one = sgd_of(0.8);
  auto other = sgd_of(0.8);
  WarmupCosineLr whole(one, {.warmup_steps = 5, .total_steps = 30, .start_factor = 0.1, .min_lr = 0.01});
  SequentialLr parts(other,
                     {std::make_shared<LinearLr>(other, LinearLrOptions{.start_factor = 0.1, .total_iters = 5}),
                      std::make_shared<CosineAnnealingLr>(other, CosineAnnealingLrOptions{.T_max = 25, .eta_min = 0.01})},
                     {5});
  const std::vector<double> expected = rates(parts, 30);
  const std::vector<double> same = rates(whole, 30);
  for (std::size_t step = 0; step < expected.size(); ++step) CHECK(same[step] == Approx(expected[step]).epsilon(1e-12));
}

TEST_CASE("WarmupCosineLr has the length of training where none is given, also a shorter one than its warmup") {
  auto sgd = sgd_of(0.1);
  const auto total_steps = [&](std::int64_t training, std::int64_t warmup) {
    const ScheduleLength length([=] { return std::optional(training); }, {});
    const auto factory = scheduler_factory("WarmupCosineLR", Value(Value::Map{{"warmup_steps", warmup}}));
    return factory->make(sgd, length)->state_dict().at("total_steps").as_int();
  };
  CHECK(total_steps(12, 5) == 12);
  CHECK(total_steps(1, 500) == 501);
  CHECK_THROWS_WITH(WarmupCosineLr(sgd, {}), Catch::StartsWith("WarmupCosineLR: total_steps is not set."));
  CHECK_THROWS_WITH(WarmupCosineLr(sgd, {.warmup_steps = 9, .total_steps = 9}), Contains("warmup_steps must be below"));
  CHECK_THROWS_WITH(WarmupCosineLr(sgd, {.total_steps = 9, .min_lr = 0.1, .min_lr_ratio = 0.1}), Contains("not both"));
}

TEST_CASE("CyclicLr and SwaLr refuse what has no meaning, and change nothing then") {
  auto sgd = sgd_of(0.3, 2);
  CHECK_THROWS_WITH(CyclicLr(sgd, {.base_lr = {0.1, 0.2, 0.3}, .max_lr = 1.0}), Contains("base_lr has 3 values"));
  CHECK_THROWS_WITH(SwaLr(sgd, {.swa_lr = {0.1, 0.2, 0.3}}), Contains("swa_lr has 3 values"));
  CHECK(get_lrs(sgd) == std::vector<double>{0.3, 0.3});
  torch::optim::Adagrad adagrad({torch::zeros({1}, torch::requires_grad())}, 0.3);
  CHECK_THROWS_WITH(CyclicLr(adagrad, {.base_lr = 0.1, .max_lr = 1.0}), Contains("Adagrad") && Contains("cycle_momentum"));
  CHECK(get_lrs(adagrad) == std::vector<double>{0.3});
}

TEST_CASE("a refused chain says why, and the state of another is refused") {
  auto sgd = sgd_of(0.1);
  auto other = sgd_of(0.1);
  const auto step_lr = [](auto& optimizer) { return std::make_shared<StepLr>(optimizer, StepLrOptions{.step_size = 1}); };
  using Members = std::vector<std::shared_ptr<LrScheduler>>;
  CHECK_THROWS_WITH(ChainedScheduler(sgd, Members{}), Contains("is empty"));
  CHECK_THROWS_WITH(ChainedScheduler(sgd, Members{step_lr(sgd), step_lr(other)}),
                    Contains("scheduler 1") && Contains("another"));
  CHECK_THROWS_WITH(ChainedScheduler(sgd, Members{std::make_shared<ReduceLrOnPlateau>(sgd)}), Contains("metric"));
  ChainedScheduler one(sgd, Members{step_lr(sgd)});
  const ChainedScheduler two(sgd, Members{step_lr(sgd), step_lr(sgd)});
  CHECK(&one.optimizer() == &sgd);
  CHECK_THROWS_WITH(one.load_state_dict(two.state_dict()), Contains("has 2 schedulers, but this one has 1"));
}

TEST_CASE("each schedule of a chain has the whole length of training") {
  auto sgd = sgd_of(0.1);
  const Value both(Value::Map{{"schedulers", Value::List{"CosineAnnealingLR", "PolynomialLR"}}});
  const auto chain =
      scheduler_factory("ChainedScheduler", both)->make(sgd, {[] { return std::optional<std::int64_t>(12); }, {}});
  const Value::List members = chain->state_dict().at("_schedulers").as_list();
  CHECK(members.at(0).at("T_max") == Value(12));
  CHECK(members.at(1).at("total_iters") == Value(12));
}
