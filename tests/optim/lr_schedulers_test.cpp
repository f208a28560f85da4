#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/cyclic_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "optim/builtin_optimizers.h"
#include "support/file_text.h"

using namespace levin;

using Catch::Matchers::Contains;
using torch::optim::OptimizerParamGroup;

namespace {

torch::optim::SGD make_sgd(double lr) {
  return torch::optim::SGD({torch::zeros({1}, torch::requires_grad())}, torch::optim::SGDOptions(lr));
}

// What make_reference.py recorded of PyTorch's own schedulers.
const Value& reference() {
  static const Value document = parse_json(test::read_text(LEVIN_SOURCE_DIR "/tests/optim/scheduler_reference.json"));
  return document;
}

template <class Optimizer, class Options>
std::shared_ptr<torch::optim::Optimizer> make(const Value& lrs, Options defaults) {
  std::vector<OptimizerParamGroup> groups;
  for (const Value& lr : lrs.as_list()) {
    auto options = std::make_unique<Options>(defaults);
    options->lr(lr.as_double());
    groups.emplace_back(std::vector<at::Tensor>{torch::zeros({1}, torch::requires_grad())}, std::move(options));
  }
  return std::make_shared<Optimizer>(groups, defaults);
}

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Value& test) {
  const Value& lrs = test.at("lrs");
  const std::string name = test.at("optimizer").as_string();
  if (name == "SGD") return make<torch::optim::SGD>(lrs, torch::optim::SGDOptions(0.1).momentum(0.9));
  if (name == "RMSprop") return make<torch::optim::RMSprop>(lrs, torch::optim::RMSpropOptions(0.1).momentum(0.9));
  if (name == "Adam") return make<torch::optim::Adam>(lrs, torch::optim::AdamOptions(0.1));
  if (name == "AdamW") return make<torch::optim::AdamW>(lrs, torch::optim::AdamWOptions(0.1));
  if (name == "Adagrad") return make<torch::optim::Adagrad>(lrs, torch::optim::AdagradOptions(0.1));
  FAIL("unknown optimizer " << name);
  return nullptr;
}

struct Run {
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::vector<std::shared_ptr<LrScheduler>> schedulers;

  explicit Run(const Value& test) : optimizer(make_optimizer(test)) {
    for (const Value& spec : test.at("schedulers").as_list()) {
      schedulers.push_back(scheduler_factory(spec.at("class_path").as_string(), spec.at("init_args"))->make(*optimizer));
    }
  }

  void step(const Value& test, std::size_t step) {
    std::optional<double> metric;
    if (const Value* metrics = test.find("metrics")) metric = metrics->as_list()[step].as_double();
    for (const auto& scheduler : schedulers) scheduler->step(metric);
  }
};

// The first difference from the recorded row, or "".
std::string difference(const Run& run, const Value& row) {
  std::ostringstream text;
  text.precision(17);
  const auto compare = [&](const char* what, std::size_t group, double ours, double theirs) {
    const double tolerance = 1e-12 * std::max(1.0, std::abs(theirs));
    if (!(std::abs(ours - theirs) <= tolerance)) text << what << " of group " << group << ": " << ours << " != " << theirs;
  };
  const auto& groups = run.optimizer->param_groups();
  const std::vector<double> last_lr = run.schedulers.back()->last_lr();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    compare("lr", group, get_lr(groups[group]), row.at("lr").as_list()[group].as_double());
    compare("last_lr", group, last_lr.at(group), row.at("lr").as_list()[group].as_double());
    const auto betas = get_betas(groups[group]);
    const double momentum = betas ? betas->first : get_momentum(groups[group]).value_or(0.0);
    compare("momentum", group, momentum, row.at("momentum").as_list()[group].as_double());
  }
  return text.str();
}

std::string title(const Value& test) { return test.at("optimizer").as_string() + " " + to_json(test.at("schedulers")); }

}  // namespace

TEST_CASE("LambdaLr multiplies the initial rate by the function of the step, also inside a sequence and after resuming") {
  auto sgd = make_sgd(0.5);
  const auto factor = [](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); };
  LambdaLr scheduler(sgd, factor);
  CHECK(&scheduler.optimizer() == &sgd);
  CHECK_FALSE(scheduler.needs_metric());
  CHECK(scheduler.last_lr().at(0) == 0.5);
  for (int step = 0; step < 3; ++step) scheduler.step();
  CHECK(scheduler.last_lr().at(0) == 0.125);

  auto other = make_sgd(0.5);
  LambdaLr resumed(other, factor);
  resumed.load_state_dict(scheduler.state_dict());
  resumed.step();
  CHECK(resumed.last_lr().at(0) == 0.1);

  auto third = make_sgd(0.5);
  SequentialLr sequence(
      third, {std::make_shared<ConstantLr>(third, ConstantLrOptions{.factor = 0.5}), std::make_shared<LambdaLr>(third, factor)},
      {2});
  std::vector<double> lrs = {sequence.last_lr().at(0)};
  for (int step = 0; step < 4; ++step) {
    sequence.step();
    lrs.push_back(sequence.last_lr().at(0));
  }
  CHECK(lrs == std::vector<double>{0.25, 0.25, 0.5, 0.25, 0.5 / 3.0});
}

TEST_CASE("the initial rate is forgotten with the last scheduler of an optimizer") {
  auto sgd = make_sgd(0.1);
  {
    ConstantLr first(sgd, {.factor = 0.5, .total_iters = 3});
    LambdaLr second(sgd, [](std::int64_t) { return 1.0; });
    CHECK(second.last_lr().at(0) == 0.1);
  }
  set_lr(sgd.param_groups()[0], 0.7);
  LambdaLr third(sgd, [](std::int64_t) { return 1.0; });
  CHECK(third.last_lr().at(0) == 0.7);
}

TEST_CASE("arguments that have no meaning are refused in C++, too") {
  auto sgd = make_sgd(0.1);
  CHECK_THROWS_AS(StepLr(sgd, {.step_size = 0}), ConfigError);
  CHECK_THROWS_WITH(ReduceLrOnPlateau(sgd, {.min_lr = {0.1, 0.2}}), Contains("min_lr has 2 values") && Contains("1 param"));
  CHECK_THROWS_WITH(OneCycleLr(sgd, {.max_lr = 0.1}), Catch::StartsWith("OneCycleLR: total_steps is not set."));
  CHECK_THROWS_WITH(CosineAnnealingLr(sgd, {}), Catch::StartsWith("CosineAnnealingLR: T_max is not set."));
  CHECK_THROWS_WITH(PolynomialLr(sgd, {.power = 2}), Contains("estimated_stepping_batches"));
  torch::optim::Adagrad adagrad({torch::zeros({1}, torch::requires_grad())});
  CHECK_THROWS_WITH(OneCycleLr(adagrad, {.max_lr = 0.1, .total_steps = 5}), Contains("Adagrad") && Contains("cycle_momentum"));
  CHECK_THROWS_AS(LambdaLr(sgd, std::vector<LambdaLr::Factor>{}), MisuseError);
}

TEST_CASE("a scheduler class that takes a length is given it by its factory, others are not") {
  auto sgd = make_sgd(0.1);
  const ScheduleLength length([] { return std::optional<std::int64_t>(12); }, {});
  const Value none(Value::Map{});
  CHECK(scheduler_factory("CosineAnnealingLR", none)->make(sgd, length)->state_dict().at("T_max") == Value(12));
  CHECK(scheduler_factory("LinearLR", none)->make(sgd, length)->state_dict().at("total_iters") == Value(5));
  // What no step is left for is not reached: a sequence whose milestone lies behind the end.
  CHECK(length.part(20, std::nullopt, {}).unless(std::nullopt, "CosineAnnealingLR", "T_max") == 1);
  CHECK(length.part(8, std::nullopt, {}).unless(std::nullopt, "CosineAnnealingLR", "T_max") == 4);
  CHECK(length.part(8, 10, {}).unless(std::nullopt, "CosineAnnealingLR", "T_max") == 2);
}

TEST_CASE("a refused sequence says why") {
  auto sgd = make_sgd(0.1);
  auto other = make_sgd(0.1);
  const auto step_lr = [](auto& optimizer) { return std::make_shared<StepLr>(optimizer, StepLrOptions{.step_size = 1}); };
  CHECK_THROWS_WITH(SequentialLr(sgd, {step_lr(sgd)}, {1}), Contains("one scheduler more than milestones"));
  CHECK_THROWS_WITH(SequentialLr(sgd, {step_lr(sgd), step_lr(other)}, {1}), Contains("another optimizer"));
  CHECK_THROWS_WITH(SequentialLr(sgd, {step_lr(sgd), step_lr(sgd), step_lr(sgd)}, {5, 1}), Contains("rise"));
  CHECK_THROWS_WITH(SequentialLr(sgd, {step_lr(sgd), std::make_shared<ReduceLrOnPlateau>(sgd)}, {1}), Contains("metric"));
}

TEST_CASE("ReduceLrOnPlateau without a metric, and OneCycleLr past its end, are errors that say what to do") {
  auto sgd = make_sgd(0.1);
  ReduceLrOnPlateau plateau(sgd);
  CHECK(plateau.needs_metric());
  CHECK_THROWS_WITH(plateau.step(), Contains("monitor"));
  OneCycleLr cycle(sgd, {.max_lr = 0.1, .total_steps = 2});
  cycle.step();
  cycle.step();
  CHECK_THROWS_WITH(cycle.step(), Contains("3 times") && Contains("2 steps"));
}

TEST_CASE("the state of another scheduler, or of another number of groups, is refused and changes nothing") {
  auto sgd = make_sgd(0.1);
  StepLr scheduler(sgd, {.step_size = 2});
  ExponentialLr other(sgd, {.gamma = 0.5});
  const Value before = scheduler.state_dict();
  CHECK_THROWS_AS(scheduler.load_state_dict(other.state_dict()), ConfigError);
  Value two_groups = before;
  two_groups["base_lrs"] = Value(Value::List{0.1, 0.2});
  CHECK_THROWS_WITH(scheduler.load_state_dict(two_groups), Contains("2 parameter groups"));
  CHECK_THROWS_AS(scheduler.load_state_dict(Value()), ConfigError);
  CHECK(scheduler.state_dict() == before);
}

TEST_CASE("a group that is added while the schedule runs follows it from its own rate, and is there when the state is loaded") {
  auto sgd = make_sgd(0.1);
  StepLr scheduler(sgd, {.step_size = 2});
  scheduler.step();
  torch::optim::OptimizerParamGroup late({torch::zeros({1}, torch::requires_grad())},
                                         std::make_unique<torch::optim::SGDOptions>(0.5));
  sgd.add_param_group(late);
  scheduler.step();
  CHECK(get_lrs(sgd) == std::vector<double>{0.1 * 0.1, 0.5 * 0.1});
  CHECK(scheduler.last_lr() == get_lrs(sgd));

  auto resumed_sgd = make_sgd(0.1);
  StepLr resumed(resumed_sgd, {.step_size = 2});
  resumed_sgd.add_param_group(late);
  resumed.load_state_dict(scheduler.state_dict());
  CHECK(resumed.state_dict() == scheduler.state_dict());

  LambdaLr by_function(sgd, [](std::int64_t) { return 1.0; });
  sgd.add_param_group({{torch::zeros({1}, torch::requires_grad())}});
  CHECK_THROWS_WITH(by_function.step(), Contains("3 parameter groups"));
}

TEST_CASE("the next schedule of a sequence takes a group that was added during an earlier one from the rate it came with") {
  const auto made = [](torch::optim::Optimizer& optimizer) {
    const auto schedule = [&] { return std::make_shared<StepLr>(optimizer, StepLrOptions{.step_size = 1}); };
    return std::make_unique<SequentialLr>(optimizer, std::vector<std::shared_ptr<LrScheduler>>{schedule(), schedule()},
                                          std::vector<std::int64_t>{3});
  };
  const torch::optim::OptimizerParamGroup late({torch::zeros({1}, torch::requires_grad())},
                                               std::make_unique<torch::optim::SGDOptions>(0.5));
  auto sgd = make_sgd(0.1);
  const auto scheduler = made(sgd);
  sgd.add_param_group(late);
  scheduler->step();
  scheduler->step();
  CHECK(get_lrs(sgd) == std::vector<double>{0.1 * 0.1 * 0.1, 0.5 * 0.1 * 0.1});

  auto resumed_sgd = make_sgd(0.1);
  const auto resumed = made(resumed_sgd);
  resumed_sgd.add_param_group(late);
  for (std::size_t group = 0; group < 2; ++group) set_lr(resumed_sgd.param_groups()[group], get_lrs(sgd)[group]);
  resumed->load_state_dict(scheduler->state_dict());
  for (const std::vector<double>& expected : {std::vector<double>{0.1, 0.5}, std::vector<double>{0.1 * 0.1, 0.5 * 0.1}}) {
    scheduler->step();
    resumed->step();
    CHECK(get_lrs(sgd) == expected);
    CHECK(get_lrs(resumed_sgd) == expected);
  }
}

TEST_CASE(
    "rates that are changed stay so in all schedules of a sequence, of a group that was added during an earlier one, too") {
  torch::optim::SGD sgd = make_sgd(0.1);
  const auto constant = std::make_shared<ConstantLr>(sgd, ConstantLrOptions{.factor = 1});
  const auto steps = std::make_shared<StepLr>(sgd, StepLrOptions{.step_size = 2, .gamma = 0.1});
  SequentialLr sequence(sgd, {constant, steps}, {3});
  const auto lower = [&] {
    sequence.change_rates([](std::string_view, std::size_t, double rate) { return rate / 2; });
    for (auto& group : sgd.param_groups()) set_lr(group, get_lr(group) / 2);
  };
  const auto add = [&](double lr) {
    sgd.add_param_group(
        OptimizerParamGroup({torch::zeros({1}, torch::requires_grad())}, std::make_unique<torch::optim::SGDOptions>(lr)));
  };
  const auto check = [&](const std::vector<double>& expected) {
    const std::vector<double> rates = get_lrs(sgd);
    REQUIRE(rates.size() == expected.size());
    for (std::size_t group = 0; group < rates.size(); ++group) CHECK(rates[group] == Approx(expected[group]));
    CHECK(sequence.last_lr() == rates);
  };
  add(0.02);
  sequence.step();
  lower();
  check({0.05, 0.01});
  add(0.04);
  lower();
  sequence.step();
  check({0.025, 0.005, 0.02});
  const Value saved = sequence.state_dict();
  for (int step = 0; step < 2; ++step) {
    INFO(step);
    sequence.load_state_dict(saved);
    sequence.step();  // the next schedule begins
    check({0.025, 0.005, 0.02});
    sequence.step();
    sequence.step();
    check({0.0025, 0.0005, 0.002});
  }
}

TEST_CASE("every scheduler gives PyTorch's learning rates and momenta") {
  REQUIRE(reference().at("cases").size() >= 88);
  for (const Value& test : reference().at("cases").as_list()) {
    INFO(title(test));
    const Value::List& rows = test.at("rows").as_list();
    REQUIRE(rows.size() > 50);
    Run run(test);
    REQUIRE(difference(run, rows[0]) == "");
    for (std::size_t step = 0; step + 1 < rows.size(); ++step) {
      INFO("step " << step + 1);
      run.step(test, step);
      REQUIRE(difference(run, rows[step + 1]) == "");
    }
  }
}

TEST_CASE("a scheduler continues from the state that PyTorch's had in the middle") {
  constexpr std::size_t kMiddle = 23;  // STATE_STEP in make_reference.py
  std::size_t states = 0;
  for (const Value& test : reference().at("cases").as_list()) {
    if (!test.contains("states")) continue;
    INFO(title(test));
    const Value::List& rows = test.at("rows").as_list();
    Run before(test);
    for (std::size_t step = 0; step < kMiddle; ++step) before.step(test, step);
    Run after(test);
    after.schedulers.at(0)->load_state_dict(test.at("states").as_list().at(0));
    for (std::size_t group = 0; group < after.optimizer->param_groups().size(); ++group) {
      after.optimizer->param_groups()[group].set_options(before.optimizer->param_groups()[group].options().clone());
    }
    for (std::size_t step = kMiddle; step + 1 < rows.size(); ++step) {
      after.step(test, step);
      REQUIRE(difference(after, rows[step + 1]) == "");
    }
    // And what PyTorch needs to continue from levin's is there.
    const Value own = before.schedulers[0]->state_dict();
    for (const auto& [name, value] : test.at("states").as_list().at(0).as_map()) {
      INFO(name);
      if (name == "_step_count" || name == "_is_initial" || name == "_get_lr_called_within_step") continue;
      REQUIRE(own.contains(name));
      if (value.is_string() || value.is_bool()) CHECK(own.at(name) == value);
    }
    ++states;
  }
  CHECK(states == 12);
}

TEST_CASE("a scheduler restored in the middle continues with the same rates") {
  for (const Value& test : reference().at("cases").as_list()) {
    INFO(title(test));
    const Value::List& rows = test.at("rows").as_list();
    for (const std::size_t middle : {std::size_t(1), std::size_t(23), std::size_t(40)}) {
      INFO("restored at step " << middle);
      Run before(test);
      for (std::size_t step = 0; step < middle; ++step) before.step(test, step);

      Run after(test);
      for (std::size_t i = 0; i < after.schedulers.size(); ++i) {
        // Through text, as a checkpoint does it.
        after.schedulers[i]->load_state_dict(parse_json(to_json(before.schedulers[i]->state_dict())));
      }
      for (std::size_t group = 0; group < after.optimizer->param_groups().size(); ++group) {
        after.optimizer->param_groups()[group].set_options(before.optimizer->param_groups()[group].options().clone());
      }
      for (std::size_t i = 0; i < after.schedulers.size(); ++i) {
        REQUIRE(after.schedulers[i]->last_lr() == before.schedulers[i]->last_lr());
      }
      for (std::size_t step = middle; step + 1 < rows.size(); ++step) {
        after.step(test, step);
        before.step(test, step);
        REQUIRE(get_lrs(*after.optimizer) == get_lrs(*before.optimizer));
        REQUIRE(difference(after, rows[step + 1]) == "");
      }
    }
  }
}
