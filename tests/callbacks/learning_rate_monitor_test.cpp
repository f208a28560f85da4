#include "levin/callbacks/learning_rate_monitor.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/config/value_json.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

// What runs show of it is in acceptance/cases/callbacks.txt.
TEST_CASE("a rate keeps its history when its group gets company, as in Lightning, and may have a prefix") {
  const auto grows =
      std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_train_epoch_start = [](Trainer& trainer, Module&) {
        if (trainer.current_epoch() == 1) trainer.optimizers()[0]->add_param_group({{torch::ones({1})}});
      }});
  const std::string prefix = GENERATE("", "optim/");
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.prefix = prefix});
  ScriptedRun run(3, {grows, monitor});
  const auto logger = std::make_shared<RowsOf>();
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
