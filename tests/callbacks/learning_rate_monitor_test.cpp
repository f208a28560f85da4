#include "levin/callbacks/learning_rate_monitor.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"
#include "levin/optim/lr_schedulers.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("learning rates reach the loggers and callback_metrics") {
  class Scheduled final : public ScriptedModule {
   public:
    OptimizerSetups configure_optimizers() override {
      const auto sgd = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.4).momentum(0.9));
      return {sgd, {{.scheduler = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5})}}};
    }
  };
  const auto logger = std::make_shared<RowLogger>();
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.log_momentum = true});
  ScriptedRun run(3, {monitor});
  run.options.logger = logger;
  Scheduled module;
  const auto trainer = run.fit(module);
  CHECK(trainer->callback_metrics().at("lr-SGD") == 0.1);
  std::vector<std::pair<std::int64_t, double>> rows;
  for (const MetricRow& row : logger->rows) {
    if (const auto rate = row.values.find("lr-SGD"); rate != row.values.end()) {
      rows.emplace_back(row.step, rate->second);
      CHECK(row.values.at("lr-SGD-momentum") == 0.9);
    }
  }
  CHECK(rows == std::vector<std::pair<std::int64_t, double>>{{0, 0.4}, {2, 0.2}, {4, 0.1}});

  run.options.logger = false;
  CHECK_THROWS_AS(run.fit(module), ConfigError);
}

TEST_CASE("a rate keeps its history when its group gets company, as in Lightning, and may have a prefix") {
  const auto grows =
      std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_train_epoch_start = [](Trainer& trainer, Module&) {
        if (trainer.current_epoch() == 1) trainer.optimizers()[0]->add_param_group({{torch::ones({1})}});
      }});
  const std::string prefix = GENERATE("", "optim/");
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.prefix = prefix});
  ScriptedRun run(3, {grows, monitor});
  const auto logger = std::make_shared<RowLogger>();
  run.options.logger = logger;
  ScriptedModule module;
  run.fit(module);
  Value counts(Value::Map{});
  for (const auto& [name, rates] : monitor->lrs()) {
    counts[name.substr(prefix.size())] = static_cast<std::int64_t>(rates.size());
    CHECK(logger->rows.back().values.contains(name));
  }
  const std::string file = read_text(LEVIN_SOURCE_DIR "/tests/core/train/flag_references.json");
  CHECK(counts == parse_json(file).at("grown_rates"));
}
