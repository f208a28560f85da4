// Each short form in which configure_optimizers gives its optimizers.
#include <catch2/catch.hpp>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/random/seed.h"
#include "levin/optim/lr_schedulers.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Two weights, each with an optimizer of another class and of another rate, stepped by hand in one training_step.
class Pair : public Module {
 public:
  using Form = std::function<OptimizerSetups(Pair&)>;
  explicit Pair(Form form) : form_(std::move(form)) {
    set_automatic_optimization(false);
    first_ = register_parameter("first", torch::zeros({1}));
    second_ = register_parameter("second", torch::zeros({1}));
  }

  StepOutput training_step(const Batch&, std::int64_t) override {
    const std::size_t count = trainer().optimizers().size();
    for (std::size_t index = 0; index < count; ++index) {
      optimizer(index).zero_grad();
      manual_backward(index == 0 ? first_.sum() : second_.sum());
      step_optimizer(index);
    }
    return {};
  }
  OptimizerSetups configure_optimizers() override {
    generator = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{first_}, 0.5);
    discriminator = std::make_shared<torch::optim::Adam>(std::vector<at::Tensor>{second_}, 0.25);
    scheduler = std::make_shared<StepLr>(*generator, StepLrOptions{.step_size = 1});
    return form_(*this);
  }

  double first() const { return first_.item<double>(); }
  double second() const { return second_.item<double>(); }

  std::shared_ptr<torch::optim::SGD> generator;
  std::shared_ptr<torch::optim::Adam> discriminator;
  std::shared_ptr<StepLr> scheduler;

 private:
  Form form_;
  at::Tensor first_, second_;
};

/// How many optimizers and schedulers a fit has, and what its weights are after two steps.
struct Fitted {
  explicit Fitted(const Pair::Form& form) : module(form), trainer(quiet_options(1)) {
    trainer.fit(module, FixedLoader::of_rows(2, 1));
    CHECK(trainer.optimizers().at(0) == module.generator);
    CHECK(module.first() == Approx(-1.0));
    if (trainer.optimizers().size() == 1) return;
    CHECK(trainer.optimizers().at(1) == module.discriminator);
    CHECK(module.second() == Approx(-0.5));
  }
  std::size_t optimizers() const { return trainer.optimizers().size(); }
  const std::vector<SchedulerConfig>& schedulers() const { return trainer.scheduler_configs(); }

  Pair module;
  Trainer trainer;
};

}  // namespace

TEST_CASE("several optimizers are a list of them") {
  const Fitted flat([](Pair& pair) -> OptimizerSetups { return {pair.generator, pair.discriminator}; });
  CHECK(flat.optimizers() == 2);
  CHECK(flat.schedulers().empty());
  const Fitted nested([](Pair& pair) -> OptimizerSetups { return {{pair.generator, pair.discriminator}}; });
  CHECK(nested.optimizers() == 2);
  CHECK(nested.schedulers().empty());
  const Fitted each([](Pair& pair) -> OptimizerSetups { return {{pair.generator}, {pair.discriminator}}; });
  CHECK(each.optimizers() == 2);
}

TEST_CASE("one optimizer stands alone, or with its scheduler") {
  const Fitted alone([](Pair& pair) -> OptimizerSetups { return pair.generator; });
  CHECK(alone.optimizers() == 1);
  const Fitted braced([](Pair& pair) -> OptimizerSetups { return {pair.generator}; });
  CHECK(braced.optimizers() == 1);
  const Fitted scheduled([](Pair& pair) -> OptimizerSetups { return {pair.generator, pair.scheduler}; });
  CHECK(scheduled.optimizers() == 1);
  REQUIRE(scheduled.schedulers().size() == 1);
  CHECK(scheduled.schedulers()[0].scheduler == scheduled.module.scheduler);
  CHECK(scheduled.schedulers()[0].interval == Interval::kEpoch);
}

TEST_CASE("each of several optimizers may have a scheduler, with settings or without") {
  const Fitted plain([](Pair& pair) -> OptimizerSetups { return {{pair.generator, pair.scheduler}, {pair.discriminator}}; });
  CHECK(plain.optimizers() == 2);
  REQUIRE(plain.schedulers().size() == 1);
  CHECK(plain.schedulers()[0].interval == Interval::kEpoch);
  const Fitted with_settings([](Pair& pair) -> OptimizerSetups {
    return {{pair.generator, {{.scheduler = pair.scheduler, .interval = Interval::kStep}}}, {pair.discriminator}};
  });
  CHECK(with_settings.optimizers() == 2);
  REQUIRE(with_settings.schedulers().size() == 1);
  CHECK(with_settings.schedulers()[0].interval == Interval::kStep);
  const Fitted single([](Pair& pair) -> OptimizerSetups {
    return {pair.generator, {{.scheduler = pair.scheduler, .interval = Interval::kStep, .frequency = 3}}};
  });
  CHECK(single.optimizers() == 1);
  REQUIRE(single.schedulers().size() == 1);
  CHECK(single.schedulers()[0].frequency == 3);
}

namespace {

/// A weight with two names, and the optimizer that it is given to.
class Tied : public RecordingModule {
 public:
  using Make = std::function<std::shared_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;
  Tied(HookTrace& trace, Make make) : RecordingModule(trace), make_(std::move(make)) {
    register_parameter("twin", layer_->weight);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.training_step");
    return (layer_->forward(batch[0]) - 1).pow(2).mean();
  }
  OptimizerSetups make_optimizers() override { return make_(parameters()); }
  torch::nn::Linear& layer() { return layer_; }

 private:
  Make make_;
};

}  // namespace

TEST_CASE("a parameter that an optimizer was given twice is stepped once, and is refused in two groups") {
  HookTrace trace;
  Tied tied(trace, [](const auto& parameters) {
    CHECK(parameters.size() == 3);
    return std::make_shared<torch::optim::SGD>(parameters, 0.1);
  });
  const at::Tensor before = tied.layer()->weight.detach().clone();
  at::Tensor gradient;
  trace.on_entry = [&](const std::string& entry) {
    if (entry == "M.on_after_backward") gradient = tied.layer()->weight.grad().clone();
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(tied, FixedLoader::of_rows(1, 2));
  CHECK(trainer.optimizers().at(0)->param_groups().at(0).params().size() == 2);
  CHECK(torch::allclose(tied.layer()->weight, before - 0.1 * gradient, 1e-6, 1e-7));

  Tied twice(trace, [](const auto& parameters) {
    const std::vector<torch::optim::OptimizerParamGroup> groups = {{{parameters[0]}}, {{parameters[1], parameters[2]}}};
    return std::make_shared<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.1));
  });
  trace.on_entry = {};
  Trainer refusing(quiet_options(1));
  CHECK_THROWS_WITH(refusing.fit(twice, FixedLoader::of_rows(1, 2)),
                    Catch::Contains("is in groups 0 and 1 of optimizer 0 (SGD), which would step it twice"));
}

TEST_CASE("Adagrad steps what add_param_group() has brought as if it had been there") {
  const auto weights = [](bool late) {
    torch::manual_seed(1);
    HookTrace trace;
    std::shared_ptr<torch::optim::Optimizer> adagrad;
    Tied module(trace, [&](const auto& parameters) {
      const auto options = torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.5);
      const std::vector<at::Tensor> first(parameters.begin(), parameters.begin() + 1);
      const std::vector<at::Tensor> second(parameters.begin() + 2, parameters.end());
      adagrad = std::make_shared<torch::optim::Adagrad>(first, options);
      if (!late) adagrad = std::make_shared<torch::optim::Adagrad>(std::vector{first[0], second[0]}, options);
      return adagrad;
    });
    trace.on_entry = [&](const std::string& entry) {
      if (late && entry == "M.on_fit_start") adagrad->add_param_group({{module.layer()->bias}});
    };
    Trainer(quiet_options(1)).fit(module, FixedLoader::of_rows(3, 2));
    return torch::cat({module.layer()->weight.flatten(), module.layer()->bias});
  };
  CHECK(torch::equal(weights(true), weights(false)));
}

TEST_CASE("between the evaluations of an optimizer's closure nothing is saved that a run could not go on from") {
  HookTrace trace;
  Tied module(trace, [](const auto& parameters) {
    return std::make_shared<torch::optim::LBFGS>(parameters, torch::optim::LBFGSOptions(0.1).max_iter(3));
  });
  Trainer trainer(quiet_options(1));
  std::vector<std::string> outcomes;
  const TemporaryFolder folder;
  trace.on_entry = [&](const std::string& entry) {
    if (entry != "M.on_after_backward" && entry != "M.on_train_batch_end") return;
    try {
      trainer.save_checkpoint((folder / "saved.ckpt").string());
      outcomes.push_back("saved");
    } catch (const MisuseError& error) {
      outcomes.push_back(error.what());
    }
  };
  trainer.fit(module, FixedLoader::of_rows(1, 2));
  REQUIRE(outcomes.size() > 2);
  CHECK(outcomes.front() == "saved");
  CHECK_THAT(outcomes[1], Catch::Contains("the optimizer computes the loss several times in this step"));
  CHECK(outcomes.back() == "saved");
}

namespace {

struct GroupedModule : Module {
  GroupedModule() {
    seed_everything(1);
    layers_ = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(2, 4), torch::nn::LayerNorm(torch::nn::LayerNormOptions({4}))));
    head_ = register_module("head", torch::nn::Linear(4, 1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return head_->forward(layers_->forward(batch[0])).pow(2).mean();
  }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters()) all.push_back(parameter.detach().clone());
    return all;
  }

 private:
  torch::nn::Sequential layers_;
  torch::nn::Linear head_ = nullptr;
};

struct GroupedRun {
  explicit GroupedRun(std::int64_t max_epochs, const RunOptions& run = {}) : trainer(quiet_options(max_epochs)) {
    ParameterGroupOptions groups;
    groups.no_decay = {"bias"};
    groups.groups = {{{"^head\\."}, Value(Value::Map{{"lr", Value(0.1)}})}};
    const Value adam(Value::Map{{"lr", Value(0.01)}, {"weight_decay", Value(0.2)}});
    trainer.override_optimizers(grouped_optimizer_factory("AdamW", adam, groups),
                                Registry<LrSchedulerFactory>::instance().make(
                                    "StepLR", Value(Value::Map{{"step_size", Value(1)}, {"gamma", Value(0.5)}})),
                                Value(Value::Map{{"interval", Value("epoch")}}));
    trainer.fit(module, FixedLoader::of_rows(3, 2), {}, run);
  }

  GroupedModule module;
  Trainer trainer;
};

}  // namespace

TEST_CASE("each group's rate follows the schedule from its own, and is monitored by name") {
  const GroupedRun run(2);
  const MetricMap rates = learning_rates(run.trainer);
  CHECK(rates.size() == 4);
  CHECK(rates.at("lr-AdamW/pg1") == Approx(0.0025));
  CHECK(rates.at("lr-AdamW/pg2") == Approx(0.0025));
  CHECK(rates.at("lr-AdamW/pg3") == Approx(0.025));
  CHECK(rates.at("lr-AdamW/pg4") == Approx(0.025));
}

TEST_CASE("a run with parameter groups resumes to the same bits") {
  const TemporaryFolder folder;
  const GroupedRun whole(3);
  GroupedRun half(1);
  half.trainer.save_checkpoint(folder / "half.ckpt");
  const GroupedRun resumed(3, {.ckpt_path = (folder / "half.ckpt").string()});
  CHECK(resumed.trainer.global_step() == whole.trainer.global_step());
  const auto expected = whole.module.weights();
  const auto got = resumed.module.weights();
  REQUIRE(got.size() == expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) CHECK(got[index].equal(expected[index]));
  CHECK(get_lrs(*resumed.trainer.optimizers()[0]) == get_lrs(*whole.trainer.optimizers()[0]));
}

TEST_CASE("a pattern that matches no parameter ends the start, at its place") {
  GroupedModule module;
  Trainer trainer(quiet_options(1));
  ParameterGroupOptions groups;
  groups.no_decay = {NamePattern("baes", Mark{"run.yaml", 9, 14})};
  trainer.override_optimizers(grouped_optimizer_factory("AdamW", Value(Value::Map{}), groups), nullptr);
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(1, 1)),
                    Catch::StartsWith("run.yaml:9:14: no parameter's name matches 'baes'; did you mean 'bias'?"));
}
