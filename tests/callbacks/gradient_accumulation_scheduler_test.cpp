#include "levin/callbacks/gradient_accumulation_scheduler.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/base/error.h"
#include "levin/core/config/registry.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("accumulation changes at the epochs given") {
  const GradientAccumulationScheduler scheduler({.scheduling = {{2, 4}, {5, 8}}});
  for (const auto& [epoch, batches] : AccumulationSchedule{{0, 1}, {1, 1}, {2, 4}, {4, 4}, {100, 8}}) {
    CHECK(scheduler.accumulate_grad_batches(epoch) == batches);
  }
  for (const AccumulationSchedule& wrong :
       {AccumulationSchedule{}, AccumulationSchedule{{-1, 2}}, AccumulationSchedule{{0, 0}}}) {
    CHECK_THROWS_AS(GradientAccumulationScheduler({.scheduling = wrong}), ConfigError);
  }

  Value init_args(Value::Map{});
  init_args["scheduling"]["0"] = 1;
  init_args["scheduling"]["1"] = 2;
  std::vector<std::int64_t> steps;
  const auto watch = std::make_shared<LambdaCallback>(
      LambdaCallbackOptions{.on_train_epoch_end = [&](Trainer& trainer, Module&) { steps.push_back(trainer.global_step()); }});
  ScriptedRun run(2, {Registry<Callback>::instance().make("GradientAccumulationScheduler", init_args), watch});
  ScriptedModule module;
  run.fit(module, 4);
  CHECK(steps == std::vector<std::int64_t>{4, 6});
  run.options.accumulate_grad_batches = 2;
  CHECK_THROWS_WITH(run.fit(module, 4), Catch::Contains("accumulate_grad_batches: 2"));
  init_args["scheduling"] = Value(Value::Map{});
  init_args["scheduling"]["first"] = 1;
  CHECK_THROWS_WITH(Registry<Callback>::instance().make("GradientAccumulationScheduler", init_args),
                    Catch::Contains("'first'"));
}
