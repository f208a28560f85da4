#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/loggers/csv_logger.h"
#include "loggers/logger_run.h"

using namespace levin::test;
using levin::CsvLogger;
using levin::CsvLoggerOptions;
using levin::Value;
namespace fs = std::filesystem;

// Its files after whole runs are in acceptance/cases/csv_logger.txt.

TEST_CASE("the earlier runs of an experiment are its version folders, the newest first, or the one that is named") {
  const TemporaryFolder folder;
  for (const char* name : {"logs/version_2", "logs/version_10", "logs/other", "mine/version_0"})
    fs::create_directories(folder / name);
  const auto runs = [&](CsvLoggerOptions options) { return CsvLogger(std::move(options)).earlier_runs(run_in(folder.path())); };
  using Folders = std::vector<fs::path>;
  CHECK(runs({}) == Folders{folder / "logs/version_10", folder / "logs/version_2"});
  CHECK(runs({.name = "mine"}) == Folders{folder / "mine/version_0"});
  CHECK(runs({.version = 2}) == Folders{folder / "logs/version_2"});
  CHECK(runs({.version = "other"}) == Folders{folder / "logs/other"});
  CHECK(runs({.name = "new"}) == Folders{folder / "new/version_0"});
  CHECK_FALSE(fs::exists(folder / "new"));
  // Outside of a Trainer: below the working folder.
  CHECK(CsvLogger({.name = "no_such_run"}).earlier_runs({}) == Folders{fs::current_path() / "no_such_run/version_0"});
}

TEST_CASE("every rank gets the folder that rank 0 chose") {
  const TemporaryFolder folder;
  CsvLogger first, second;
  const std::string token = first.open(run_in(folder.path()));
  second.attach(run_in(folder / "elsewhere", 1), token);
  CHECK(second.log_dir() == folder / "logs/version_0");
  CHECK(second.version() == "version_0");
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_CASE("files are not written through links that lie in the folder, nor into a folder that is gone") {
  const TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  CsvLogger logger({.version = "mine"});
  start(logger, run_in(folder.path()));
  const fs::path run = folder / "logs/mine";
  for (const char* name : {"hparams.yaml", "hparams.yaml.tmp", "metrics.csv.tmp"})
    fs::create_symlink(folder / "victim", run / name);
  logger.log_hyperparams(Value(Value::Map{{"lr", 1e-3}}));
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.save();
  CHECK(read_text(folder / "victim") == "precious");
  CHECK(read_text(run / "hparams.yaml") == "lr: 0.001\n");
  fs::remove_all(run);
  CHECK_THROWS_WITH(logger.finalize("success"), Catch::Contains((run / "metrics.csv").string() + " is gone"));

  CsvLogger silent({.version = "silent"});
  start(silent, run_in(folder.path()));
  fs::remove_all(folder / "logs/silent");
  CHECK_THROWS_WITH(silent.finalize("success"), Catch::Contains((folder / "logs/silent").string() + " is gone"));
}

TEST_CASE("a second run with the same logger continues its files; without hyper-parameters there is no hparams.yaml") {
  const TemporaryFolder folder;
  CsvLogger logger;
  start(logger, run_in(folder.path()));
  logger.log_hyperparams(Value(Value::Map{}));
  CHECK_FALSE(fs::exists(folder / "logs/version_0/hparams.yaml"));
  logger.log_hyperparams(Value(Value::Map{{"lr", 1e-3}}));
  logger.log_metrics(row_of(0, {{"val_loss", 1.0}}));
  logger.finalize("success");
  start(logger, run_in(folder.path()));
  logger.log_hyperparams(Value(Value::Map{{"hidden", 64}}));
  logger.log_metrics(row_of(0, {{"test_loss", 2.0}}));
  logger.finalize("success");
  CHECK(read_text(folder / "logs/version_0/metrics.csv") == "epoch,step,test_loss,val_loss\n0,0,,1.0\n0,0,2.0,\n");
  CHECK(read_text(folder / "logs/version_0/hparams.yaml") == "lr: 0.001\nhidden: 64\n");
  CHECK_FALSE(fs::exists(folder / "logs/version_1"));
}

TEST_CASE("a logger that is used before its run has started is misused") {
  CsvLogger logger;
  CHECK_THROWS_AS(logger.log_metrics(row_of(0, {})), levin::MisuseError);
  CHECK_THROWS_AS(logger.log_rank_metrics(row_of(0, {})), levin::MisuseError);
  CHECK_THROWS_AS(logger.log_hyperparams(Value(Value::Map{})), levin::MisuseError);
  CHECK_NOTHROW(logger.save());
  CHECK_NOTHROW(logger.finalize("failed"));
}

TEST_CASE("runs that start at the same moment have different folders") {
  const TemporaryFolder folder;
  constexpr int kRuns = 16;
  std::vector<std::string> made(kRuns);
  std::vector<std::thread> runs;
  for (std::string& path : made) runs.emplace_back([&] { path = CsvLogger().open(run_in(folder.path())); });
  for (std::thread& run : runs) run.join();
  CHECK(std::set<std::string>(made.begin(), made.end()).size() == kRuns);
}
