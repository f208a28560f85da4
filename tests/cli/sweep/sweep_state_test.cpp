#include "levin/cli/sweep/sweep_state.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/sweep/sweep_results.h"
#include "levin/core/base/error.h"
#include "levin/core/files/atomic_file.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

using levin::IoError;
using levin::cli::halving_rungs;
using levin::cli::SweepState;
using levin::cli::Trial;
using levin::test::error_of;
using levin::test::TemporaryFolder;

namespace {

using Indices = std::vector<std::size_t>;
using Epochs = std::vector<std::int64_t>;

/// A sweep whose trials have these scores after each rung.
SweepState sweep_with(const std::vector<std::vector<std::optional<double>>>& scores) {
  SweepState sweep;
  sweep.monitor = "val_loss";
  for (const auto& of_trial : scores) {
    Trial trial;
    trial.number = sweep.trials.size();
    trial.values = {{"model.lr", "1e-" + std::to_string(trial.number)}, {"data.shape", "[1, 8]"}};
    trial.scores = of_trial;
    trial.status = of_trial.empty() ? "failed" : "finished";
    sweep.trials.push_back(trial);
  }
  return sweep;
}

}  // namespace

TEST_CASE("the best third takes part in the next rung, by what each had in the one before") {
  SweepState sweep = sweep_with({{0.5, 9.0}, {std::nullopt}, {}, {0.25}, {0.75}});
  sweep.rungs = {1, 3, 9};
  CHECK(sweep.participants(0) == Indices{0, 1, 2, 3, 4});
  CHECK(sweep.participants(1) == Indices{0, 3});
  CHECK(sweep.participants(2) == Indices{0});  // trial 3 has not ended the second rung
  sweep.maximize = true;
  CHECK(sweep.participants(1) == Indices{0, 4});
}

TEST_CASE("trials are ranked by their last scores; those without one are behind, in their order") {
  SweepState sweep = sweep_with({{}, {0.5}, {std::nullopt}, {0.1, 0.7}, {0.6}});
  CHECK(sweep.ranking() == Indices{1, 4, 3, 0, 2});
  sweep.maximize = true;
  CHECK(sweep.ranking() == Indices{3, 4, 1, 0, 2});
}

TEST_CASE("rungs have a third of the trials and three times the epochs, down to one of either") {
  CHECK(halving_rungs(9, 27) == Epochs{3, 9, 27});
  CHECK(halving_rungs(10, 27) == Epochs{1, 3, 9, 27});
  CHECK(halving_rungs(100, 4) == Epochs{1, 4});
  CHECK(halving_rungs(1, 5) == Epochs{5});
  CHECK(halving_rungs(8, 1) == Epochs{1});
}

TEST_CASE("a sweep is read as it was written, and a damaged or missing file is an error that names it") {
  const TemporaryFolder folder;
  SweepState sweep = sweep_with({{0.5, std::nullopt}, {}});
  sweep.folder = folder.path();
  sweep.arguments = {"--config=run.yaml", "--model.lr=1"};
  sweep.begun_with = levin::Value::Map{{"seed", "7"}, {"halving", true}};
  sweep.maximize = true;
  sweep.rungs = {1, 3};
  sweep.trials[1].failure = "error: \"no\"\nsuch file";
  sweep.trials[1].seconds = 2.5;
  sweep.write();
  const SweepState read = SweepState::read(folder.path());
  CHECK(read.folder == folder.path());
  CHECK(read.arguments == sweep.arguments);
  CHECK(read.monitor == "val_loss");
  CHECK(read.maximize);
  CHECK(read.begun_with == sweep.begun_with);
  CHECK(read.rungs == sweep.rungs);
  REQUIRE(read.trials.size() == 2);
  CHECK(read.trials[0].scores == sweep.trials[0].scores);
  CHECK(read.trials[1].values == sweep.trials[1].values);
  CHECK(read.trials[1].has_failed());
  CHECK(read.trials[1].failure == sweep.trials[1].failure);
  CHECK(read.trials[1].seconds == 2.5);
  for (const char* text : {"", "[]", "{\"arguments\": []}", "{\"arguments\": 5"}) {
    levin::write_file(folder / "sweep.json", text);
    CHECK_THAT(error_of<IoError>([&] { SweepState::read(folder.path()); }), Catch::Contains("sweep.json is damaged: "));
  }
  CHECK_THAT(error_of<IoError>([&] { SweepState::read(folder / "none"); }), Catch::Contains("is not the folder of a sweep"));
}

TEST_CASE("a sweep's file has no secrets") {
  const TemporaryFolder folder;
  SweepState sweep = sweep_with({{}});
  sweep.folder = folder.path();
  sweep.arguments = {"--data.password=hunter2", "--model={init_args: {token: hunter2}}", "--data.token=${env:TOKEN}"};
  sweep.write();
  CHECK(SweepState::read(folder.path()).arguments ==
        std::vector<std::string>{"--data.password=***", "--model={init_args: {token: ***}}", "--data.token=${env:TOKEN}"});
}

TEST_CASE("results are the best first, as a table and as CSV") {
  SweepState sweep = sweep_with({{0.5}, {0.25, 0.125}, {}});
  CHECK(levin::cli::results_csv(sweep) ==
        "trial,model.lr,data.shape,val_loss,status,seconds\n"
        "trial_001,1e-1,\"[1, 8]\",0.125,finished,0.0\n"
        "trial_000,1e-0,\"[1, 8]\",0.5,finished,0.0\n"
        "trial_002,1e-2,\"[1, 8]\",,failed,0.0\n");
  sweep.rungs = {2, 6};
  CHECK_THAT(levin::cli::results_table(sweep),
             Catch::Contains("trial_001 | 1e-1     | [1, 8]     | 0.125    | 6      | finished | 0.0\n") &&
                 Catch::Contains("trial_002 | 1e-2     | [1, 8]     |          | 0      | failed   | 0.0\n"));
}
