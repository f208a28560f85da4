#include "levin/cli/runs/run_tables.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using levin::Value;
using levin::cli::RunRecord;

namespace {

RunRecord run_of(const std::string& name, double lr, const std::map<std::string, levin::cli::MetricSummary>& metrics) {
  RunRecord run;
  run.name = run.path = name;
  run.status = "finished";
  run.seconds = 65;
  run.config = Value::Map{{"model", Value::Map{{"lr", lr}, {"width", 8}}}, {"trainer", Value::Map{{"default_root_dir", name}}}};
  run.summary = {.metrics = metrics, .epochs = 3};
  return run;
}

std::vector<RunRecord> three_runs() {
  std::vector<RunRecord> runs = {run_of("a", 0.5, {{"acc", {0.5, 0.25, 0.75}}}), run_of("b", 0.25, {{"loss", {1, 1, 2}}}),
                                 run_of("c", 0.5, {{"acc", {0.5, 0.125, 0.5}}})};
  runs[2].tags = {"good", "paper"};
  return runs;
}

std::vector<std::string> names_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(run.name);
  return names;
}

}  // namespace

TEST_CASE("runs are ranked by a metric's best value, without those that lack it") {
  CHECK(names_of(ranked_by(three_runs(), "acc", /*maximize=*/true)) == std::vector<std::string>{"a", "c"});
  CHECK(names_of(ranked_by(three_runs(), "acc", /*maximize=*/false)) == std::vector<std::string>{"c", "a"});
  CHECK(ranked_by(three_runs(), "none", /*maximize=*/false).empty());
}

TEST_CASE("the list shows a metric, the first where none is named and there is no val_loss") {
  CHECK(levin::cli::list_table(three_runs(), "", /*maximize=*/true) ==
        "run | status   | started | time  | epochs | last acc | best acc | tags\n"
        "-----------------------------------------------------------------------------\n"
        "a   | finished |         | 01:05 | 3      | 0.5      | 0.75     |\n"
        "b   | finished |         | 01:05 | 3      |          |          |\n"
        "c   | finished |         | 01:05 | 3      | 0.5      | 0.5      | good, paper\n");
  std::vector<RunRecord> runs = three_runs();
  runs[1].summary.metrics["val_loss"] = {2, 1, 3};
  CHECK_THAT(levin::cli::list_table(runs, "", false), Catch::Contains("| last val_loss | best val_loss |"));
}

TEST_CASE("a comparison has the options that differ, but not where runs are kept, and every metric") {
  CHECK(levin::cli::comparison_table({three_runs()[0], three_runs()[1]}) ==
        "             | a        | b\n"
        "----------------------------------\n"
        "model.lr     | 0.5      | 0.25\n"
        "status       | finished | finished\n"
        "epochs       | 3        | 3\n"
        "last acc     | 0.5      |\n"
        "lowest acc   | 0.25     |\n"
        "highest acc  | 0.75     |\n"
        "last loss    |          | 1\n"
        "lowest loss  |          | 1\n"
        "highest loss |          | 2\n");
}

TEST_CASE("the export has a line for each run and a column for each option and metric") {
  CHECK(levin::cli::runs_csv({three_runs()[1], three_runs()[2]}) ==
        "run,path,status,started,seconds,epochs,tags,acc,acc.min,acc.max,loss,loss.min,loss.max,config.model.lr,"
        "config.model.width,config.trainer.default_root_dir\n"
        "b,b,finished,,65,3,,,,,1.0,1.0,2.0,0.25,8,b\n"
        "c,c,finished,,65,3,\"good, paper\",0.5,0.125,0.5,,,,0.5,8,c\n");
}
