#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/timer.h"
#include "levin/core/learning_rates.h"
#include "levin/optim/lr_schedulers.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("a callback gets others by class, the present learning rates and the reason of the end") {
  class TwoOptimizers final : public ScriptedModule {
   public:
    TwoOptimizers() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
    OptimizerSetups configure_optimizers() override {
      const auto first = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.4));
      const auto second = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.2));
      second->add_param_group(torch::optim::OptimizerParamGroup({torch::ones({1})}));
      const auto scheduler = std::make_shared<StepLr>(*second, StepLrOptions{.step_size = 1, .gamma = 0.5});
      const auto adam = std::make_shared<torch::optim::Adam>(parameters(), torch::optim::AdamOptions(0.1));
      const auto last = std::make_shared<torch::optim::SGD>(second->param_groups(), torch::optim::SGDOptions(0.2));
      return std::vector<OptimizerSetup>{{first}, {second, {{.scheduler = scheduler, .name = "second"}}}, {adam}, {last}};
    }
  };
  class Looks final : public Callback {
   public:
    void on_train_start(Trainer& trainer, Module&) override {
      rates = learning_rates(trainer);
      reason_while_running = trainer.stop_reason();
    }
    MetricMap rates;
    std::string reason_while_running;
  };
  const auto looks = std::make_shared<Looks>();
  const auto timer = std::make_shared<Timer>();
  const ScriptedRun run(2, {timer, looks, std::make_shared<Looks>()});
  Trainer trainer(run.options);
  CHECK(trainer.stop_reason().empty());
  CHECK(trainer.callback<Timer>() == timer.get());
  CHECK(trainer.callbacks_of<Looks>().size() == 2);
  CHECK(trainer.callback<Looks>() == looks.get());
  CHECK(trainer.callback<EarlyStopping>() == nullptr);

  TwoOptimizers module;
  trainer.fit(module, FixedLoader::of_rows(2, 1));
  // Lightning's LearningRateMonitor calls them so.
  CHECK(looks->rates == MetricMap{{"second/pg1", 0.2},
                                  {"second/pg2", 0.2},
                                  {"lr-SGD", 0.4},
                                  {"lr-Adam", 0.1},
                                  {"lr-SGD-1/pg1", 0.2},
                                  {"lr-SGD-1/pg2", 0.2}});
  CHECK(trainer.stop_reason() == "max_epochs=2 reached");

  trainer.validate(module, {FixedLoader::of_rows(1, 1)});
  CHECK(trainer.stop_reason() == "max_epochs=2 reached");
  CHECK(looks->reason_while_running.empty());
}

TEST_CASE("what asked for the end is its reason, and a fit that fails has none") {
  class Tired final : public Callback {
    void on_train_epoch_end(Trainer& trainer, Module&) override { trainer.stop("tired"); }
  };
  ScriptedModule module;
  CHECK(ScriptedRun(3, {std::make_shared<Tired>()}).fit(module)->stop_reason() == "tired");
  CHECK(choice_name(EarlyStoppingReason::kPatienceExhausted) == "patience_exhausted");
  const ScriptedRun run(1);
  Trainer failing_trainer(run.options);
  ScriptedModule failing;
  failing.throw_at_batch = 0;
  CHECK_THROWS_WITH(failing_trainer.fit(failing, FixedLoader::of_rows(2, 1)), Catch::Contains("scripted failure"));
  CHECK(failing_trainer.stop_reason().empty());
}
