#include "levin/cli/runs/metric_direction.h"
#include "levin/cli/config/yaml_reader.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

using levin::cli::is_larger_better_in;
using levin::cli::monitored_as_larger;
using levin::cli::RunRecord;

namespace {

levin::Value config_with(const std::string& callbacks) {
  return levin::cli::read_yaml_argument("test", "{trainer: {callbacks: [" + callbacks + "]}}");
}

RunRecord run_with(const std::string& name, const std::string& metric, const std::string& callbacks) {
  RunRecord run;
  run.name = name;
  run.config = config_with(callbacks);
  run.summary.metrics[metric] = {1, 1, 1};
  return run;
}

std::string saving(const std::string& metric, const std::string& mode) {
  return "{class_path: ModelCheckpoint, init_args: {monitor: " + metric + ", mode: " + mode + "}}";
}

}  // namespace

TEST_CASE("which value of a metric is better is what the callback says that monitors it") {
  const auto config = config_with("Timer, {class_path: X, init_args: {monitor: null, mode: max}}, " + saving("score", "max") +
                                  ", " + saving("other", "min") + ", " + saving("score", "min"));
  CHECK(monitored_as_larger(config, "score") == std::optional(true));
  CHECK(monitored_as_larger(config, "other") == std::optional(false));
  CHECK(monitored_as_larger(config, "none") == std::nullopt);
  CHECK(monitored_as_larger({}, "score") == std::nullopt);
}

TEST_CASE("without a callback it is what a metric's name says, and unknown where that says nothing") {
  const std::vector<RunRecord> runs = {run_with("a", "val_acc", ""), run_with("b", "return", "")};
  CHECK(is_larger_better_in(runs, "val_acc") == std::optional(true));
  CHECK(is_larger_better_in(runs, "val_loss") == std::optional(false));
  CHECK(is_larger_better_in(runs, "return") == std::nullopt);
  CHECK_THROWS_WITH(levin::cli::ask_for_mode("return"), Catch::Contains("'return'") && Catch::Contains("--mode max"));
}

TEST_CASE("a callback counts more than a name, and only where its run has the metric") {
  std::vector<RunRecord> runs = {run_with("a", "val_loss", ""), run_with("b", "val_loss", saving("val_loss", "max")),
                                 run_with("c", "other", saving("val_loss", "min"))};
  CHECK(is_larger_better_in(runs, "val_loss") == std::optional(true));
  runs.push_back(run_with("d", "val_loss", saving("val_loss", "min")));
  CHECK_THROWS_WITH(is_larger_better_in(runs, "val_loss"),
                    Catch::Contains("b monitors 'val_loss' with mode: max, and d with mode: min") && Catch::Contains("--mode"));
}
