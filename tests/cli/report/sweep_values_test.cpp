#include "levin/cli/report/sweep_values.h"

#include <catch2/catch.hpp>
#include <string>

#include "levin/cli/sweep/sweep_state.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::Value;
using levin::cli::RunFolder;
using levin::cli::sweep_values;
using levin::cli::SweepState;
using levin::test::TemporaryFolder;

TEST_CASE("trials of a sweep are ranked by its metric and mode, each with its run") {
  const TemporaryFolder folder;
  SweepState sweep{.folder = folder / "sweep", .arguments = {}, .monitor = "val_acc", .maximize = true, .trials = {}};
  sweep.trials = {{.number = 0, .values = {{"model.lr", "0.1"}}, .status = "finished", .scores = {0.5}, .seconds = 3},
                  {.number = 1, .values = {{"model.lr", "0.01"}, {"model.name", "<b>"}}, .status = "finished", .scores = {0.9}},
                  {.number = 2, .values = {{"model.lr", "1"}}, .status = "failed", .scores = {std::nullopt}}};
  std::filesystem::create_directories(sweep.folder);
  sweep.write();
  RunFolder other, trial;
  other.path = folder / "logs/version_0";
  trial.path = folder / "sweep/trial_001/logs/version_0";
  const Value values = sweep_values({other, trial});
  REQUIRE(values.size() == 1);
  const Value& read = values.as_list()[0];
  CHECK(read.at("monitor").as_string() == "val_acc");
  CHECK(read.at("mode").as_string() == "max");
  CHECK(levin::to_json(read.at("keys")) == R"(["model.lr","model.name"])");
  CHECK(levin::to_json(read.at("trials")) ==
        R"([{"name":"trial_001","run":1,"status":"finished","values":["0.01","<b>"],"score":0.9,"seconds":0.0},)"
        R"({"name":"trial_000","run":null,"status":"finished","values":["0.1",null],"score":0.5,"seconds":3.0},)"
        R"({"name":"trial_002","run":null,"status":"failed","values":["1",null],"score":null,"seconds":0.0}])");
  CHECK(sweep_values({other}).size() == 0);
  levin::write_file(folder / "sweep/sweep.json", "{");
  CHECK(sweep_values({trial}).size() == 0);
}
