#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/config/registry.h"
#include "levin/loggers/csv_logger.h"
#include "loggers/csv_table.h"

using levin::CsvLogger;
using levin::CsvLoggerOptions;
using levin::MetricMap;
using levin::MetricRow;
using levin::RunInfo;
using levin::Value;
using levin::test::read_text;
using levin::test::row_of;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

RunInfo run_in(const fs::path& root, int rank = 0, int world_size = 1) {
  RunInfo run;
  run.rank = rank;
  run.world_size = world_size;
  run.default_root_dir = root;
  return run;
}

// A row of an epoch's end.
MetricRow end_row_of(std::int64_t step, MetricMap values) {
  MetricRow row = row_of(step, std::move(values));
  row.epoch_end = true;
  return row;
}

// What rank 0 of a run does with its logger at the start.
void start(CsvLogger& logger, const RunInfo& run) { logger.attach(run, logger.open(run)); }

// A whole run of rank 0, which also has these rows as its own where it is asked for them.
CsvLogger log_run(const CsvLoggerOptions& options, const RunInfo& run, const std::vector<MetricRow>& rows,
                  const std::string& status = "success") {
  CsvLogger logger(options);
  start(logger, run);
  for (const MetricRow& row : rows) {
    logger.log_metrics(row);
    if (options.per_rank) logger.log_rank_metrics(row);
  }
  logger.finalize(status);
  return logger;
}

}  // namespace

TEST_CASE("by default the rows are in ROOT/logs/version_0/metrics.csv, and the next run's in version_1") {
  const TemporaryFolder folder;
  for (const std::string version : {"version_0", "version_1"}) {
    const double infinity = std::numeric_limits<double>::infinity();
    const CsvLogger logger =
        log_run({}, run_in(folder.path()),
                {row_of(49, {{"train_loss", 0.1}}), end_row_of(49, {{"val_loss", std::nan("")}, {"val_acc", -infinity}})});
    CHECK(logger.log_dir() == folder / "logs" / version);
    CHECK(logger.name() == "logs");
    CHECK(logger.version() == version);
    CHECK(read_text(folder / "logs" / version / "metrics.csv") ==
          "epoch,step,train_loss,val_acc,val_loss\n0,49,0.1,,\n0,49,,-inf,NaN\n");
  }
}

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

TEST_CASE("save_dir, name and version choose the folder") {
  const TemporaryFolder folder;
  const auto folder_of = [&](CsvLoggerOptions options) {
    CsvLogger logger(std::move(options));
    start(logger, run_in(folder / "root"));
    CHECK(fs::is_directory(logger.log_dir()));
    return std::pair(logger.log_dir().lexically_relative(folder.path()).string(), logger.version());
  };
  using Place = std::pair<std::string, std::string>;
  CHECK(folder_of({.save_dir = folder / "here"}) == Place("here/logs/version_0", "version_0"));
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", folder.path().c_str(), /*overwrite=*/1);
  CHECK(folder_of({.save_dir = "~/at_home"}) == Place("at_home/logs/version_0", "version_0"));
  setenv("HOME", home.c_str(), /*overwrite=*/1);
  CHECK(folder_of({.name = "digits"}) == Place("root/digits/version_0", "version_0"));
  CHECK(folder_of({.name = ""}) == Place("root/version_0", "version_0"));
  CHECK(folder_of({.version = 7}) == Place("root/logs/version_7", "version_7"));
  CHECK(folder_of({.version = "best/try"}) == Place("root/logs/best/try", "best/try"));
  // No folder of its own.
  CHECK(folder_of({.version = ""}) == Place("root/logs", ""));
  CHECK(folder_of({.save_dir = folder / "bare", .name = "", .version = ""}) == Place("bare", ""));
  CHECK(folder_of({}) == Place("root/logs/version_8", "version_8"));
}

TEST_CASE("every rank gets the folder that rank 0 chose") {
  const TemporaryFolder folder;
  CsvLogger first, second;
  const std::string token = first.open(run_in(folder.path(), 0, 2));
  second.attach(run_in(folder / "elsewhere", 1, 2), token);
  CHECK(second.log_dir() == folder / "logs/version_0");
  CHECK(second.version() == "version_0");
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_CASE("options without meaning are refused, and so is a name or version that leads out of save_dir") {
  for (const CsvLoggerOptions& wrong :
       {CsvLoggerOptions{.version = -1}, CsvLoggerOptions{.version = 1.5}, CsvLoggerOptions{.flush_logs_every_n_steps = 0},
        CsvLoggerOptions{.every_n_steps = 0}}) {
    CHECK_THROWS_AS(CsvLogger(wrong), levin::ConfigError);
  }
  for (const char* folder : {"..", "../x", "a/../../x", "a/..", "/tmp/x"}) {
    CHECK_THROWS_WITH(CsvLogger({.name = folder}), Catch::Contains("name is '" + std::string(folder) + "'"));
    CHECK_THROWS_WITH(CsvLogger({.version = folder}), Catch::Contains("version is '" + std::string(folder) + "'"));
  }
  CHECK_NOTHROW(CsvLogger({.name = "a..b/c", .version = "..."}));
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
  CHECK_THROWS_WITH(logger.save(), Catch::Contains((run / "metrics.csv").string() + " is gone"));
  CHECK_THROWS_AS(logger.finalize("success"), levin::IoError);

  CsvLogger silent({.version = "silent"});
  start(silent, run_in(folder.path()));
  fs::remove_all(folder / "logs/silent");
  CHECK_THROWS_WITH(silent.finalize("success"), Catch::Contains((folder / "logs/silent").string() + " is gone"));
}

TEST_CASE("YAML makes it as CSVLogger") {
  Value arguments(Value::Map{});
  arguments["name"] = "digits";
  arguments["version"] = 3;
  const auto logger = levin::Registry<levin::Logger>::instance().make("lightning.pytorch.loggers.CSVLogger", arguments);
  const TemporaryFolder folder;
  CHECK(logger->open(run_in(folder.path())) == (folder / "digits/version_3").string());
  arguments["every_n_steps"] = 0;
  CHECK_THROWS_AS(levin::Registry<levin::Logger>::instance().make("CSVLogger", arguments), levin::ConfigError);
}

TEST_CASE("save brings rows to the file, and so does finalize after a failure; a prefix is put before metrics alone") {
  const TemporaryFolder folder;
  CsvLogger logger({.prefix = "fold1"});
  start(logger, run_in(folder.path()));
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.save();
  CHECK(read_text(logger.log_dir() / "metrics.csv") == "epoch,step,fold1-loss\n0,0,1.0\n");
  logger.log_metrics(row_of(1, {{"loss", 2.0}}));
  logger.finalize("failed");
  CHECK(read_text(logger.log_dir() / "metrics.csv") == "epoch,fold1-loss,step\n0,1.0,0\n0,2.0,1\n");
}

TEST_CASE("hyper-parameters are gathered in hparams.yaml") {
  const TemporaryFolder folder;
  CsvLogger logger;
  start(logger, run_in(folder.path()));
  logger.log_hyperparams(Value(Value::Map{}));
  CHECK_FALSE(fs::exists(logger.log_dir() / "hparams.yaml"));
  logger.log_hyperparams(Value(Value::Map{{"lr", 1e-3}, {"hidden", 64}}));
  CHECK(read_text(logger.log_dir() / "hparams.yaml") == "lr: 0.001\nhidden: 64\n");
}

TEST_CASE("per_rank writes each rank's own values of every n-th step and of each epoch's end") {
  const TemporaryFolder folder;
  const CsvLoggerOptions options{.per_rank = true, .every_n_steps = 2};
  CsvLogger first(options), second(options);
  const std::string token = first.open(run_in(folder.path(), 0, 2));
  first.attach(run_in(folder.path(), 0, 2), token);
  second.attach(run_in(folder.path(), 1, 2), token);
  for (CsvLogger* logger : {&first, &second}) {
    CHECK(logger->wants_rank_metrics());
    const double rank = logger == &first ? 0 : 1;
    for (std::int64_t step = 0; step < 5; ++step) logger->log_rank_metrics(row_of(step, {{"train_loss", 10 * rank + step}}));
    logger->log_rank_metrics(end_row_of(4, {{"val_loss", rank}}));
  }
  first.log_metrics(end_row_of(4, {{"val_loss", 0.5}}));
  first.finalize("success");
  second.finalize("success");
  CHECK(read_text(folder / "logs/version_0/metrics.csv") == "epoch,step,val_loss\n0,4,0.5\n");
  CHECK(read_text(folder / "logs/version_0/metrics_rank_0.csv") ==
        "epoch,step,train_loss,val_loss\n0,1,1.0,\n0,3,3.0,\n0,4,,0.0\n");
  CHECK(read_text(folder / "logs/version_0/metrics_rank_1.csv") ==
        "epoch,step,train_loss,val_loss\n0,1,11.0,\n0,3,13.0,\n0,4,,1.0\n");
  CHECK_FALSE(CsvLogger().wants_rank_metrics());
}

TEST_CASE("a second run with the same logger goes on in the same file") {
  const TemporaryFolder folder;
  CsvLogger logger;
  start(logger, run_in(folder.path()));
  logger.log_metrics(row_of(0, {{"val_loss", 1.0}}));
  logger.finalize("success");
  start(logger, run_in(folder.path()));
  logger.log_metrics(row_of(0, {{"test_loss", 2.0}}));
  logger.finalize("success");
  CHECK(read_text(folder / "logs/version_0/metrics.csv") == "epoch,step,test_loss,val_loss\n0,0,,1.0\n0,0,2.0,\n");
  CHECK_FALSE(fs::exists(folder / "logs/version_1"));
}

TEST_CASE("a version folder used again without resuming keeps the old files, under the first free names, where they differ") {
  const TemporaryFolder folder;
  for (const double value : {1.0, 2.0, 2.0, 3.0}) {
    CsvLogger logger({.version = "mine"});
    start(logger, run_in(folder.path()));
    logger.log_metrics(row_of(0, {{"loss", value}}));
    logger.log_hyperparams(Value(Value::Map{{"value", value}}));
    logger.finalize("success");
  }
  const auto check = [&](const std::string& ending, const std::string& loss, const std::string& hparam) {
    CHECK(read_text(folder / ("logs/mine/metrics.csv" + ending)) == "epoch,loss,step\n0," + loss + ",0\n");
    if (!hparam.empty()) CHECK(read_text(folder / ("logs/mine/hparams.yaml" + ending)) == "value: " + hparam + "\n");
  };
  check("", "3.0", "3.0");
  check(".bak-1", "1.0", "1.0");
  check(".bak-2", "2.0", "2.0");
  check(".bak-3", "2.0", "");
  CHECK_FALSE(fs::exists(folder / "logs/mine/hparams.yaml.bak-3"));
}

namespace {

RunInfo resumed_in(const fs::path& root, std::int64_t step, const fs::path& checkpoint = {}) {
  RunInfo run = run_in(root);
  run.resuming = true;
  run.resume_step = step;
  run.resume_checkpoint = checkpoint;
  return run;
}

}  // namespace

TEST_CASE("resuming in the same folder keeps the rows before the checkpoint, on every rank") {
  const TemporaryFolder folder;
  const CsvLoggerOptions options{.version = 0, .per_rank = true, .every_n_steps = 1};
  log_run(options, run_in(folder.path()), {row_of(0, {{"a", 0.0}}), row_of(1, {{"a", 1.0}}), row_of(2, {{"a", 2.0}})});
  log_run(options, resumed_in(folder.path(), 2), {row_of(2, {{"b", 22.0}}), row_of(3, {{"b", 23.0}})});
  const std::string expected = "a,b,epoch,step\n0.0,,0,0\n1.0,,0,1\n,22.0,0,2\n,23.0,0,3\n";
  CHECK(read_text(folder / "logs/version_0/metrics.csv") == expected);
  CHECK(read_text(folder / "logs/version_0/metrics_rank_0.csv") == expected);
}

TEST_CASE("resuming in a new folder starts with the rows of the folder that the checkpoint lies in") {
  const TemporaryFolder folder;
  log_run({}, run_in(folder.path()), {row_of(0, {{"loss", 0.0}}), row_of(1, {{"loss", 1.0}}), row_of(2, {{"loss", 2.0}})},
          "interrupted");
  const std::string old_file = read_text(folder / "logs/version_0/metrics.csv");
  log_run({}, resumed_in(folder.path(), 2, folder / "logs/version_0/checkpoints/epoch=0-step=2.ckpt"),
          {row_of(2, {{"loss", 7.0}})});
  CHECK(read_text(folder / "logs/version_1/metrics.csv") == "epoch,loss,step\n0,0.0,0\n0,1.0,1\n0,7.0,2\n");
  CHECK(read_text(folder / "logs/version_0/metrics.csv") == old_file);
  log_run({}, resumed_in(folder.path(), 2, folder / "a checkpoint from elsewhere.ckpt"), {});
  CHECK_FALSE(fs::exists(folder / "logs/version_2/metrics.csv"));
}

TEST_CASE("a FIFO or a device in the place of earlier rows is refused, and not waited for") {
  const TemporaryFolder folder;
  const bool is_fifo = GENERATE(true, false);
  const std::string name = "metrics.csv";
  log_run({.version = 0}, run_in(folder.path()), {row_of(0, {{"a", 0.0}}), row_of(1, {{"a", 1.0}})});
  const fs::path odd = folder / "logs/version_0" / name;
  fs::remove(odd);
  if (is_fifo) {
    REQUIRE(mkfifo(odd.c_str(), 0600) == 0);
  } else {
    fs::create_symlink("/dev/zero", odd);
  }
  const RunInfo run = resumed_in(folder.path(), 1, folder / "logs/version_0/checkpoints/last.ckpt");
  for (const Value& version : {Value(), Value(0)}) {
    CHECK_THROWS_WITH(log_run({.version = version}, run, {}),
                      Catch::Contains(odd.string()) && Catch::Contains("not a regular file"));
  }
}

TEST_CASE("each of two loggers goes on from its own rows, wherever the checkpoint lies") {
  const TemporaryFolder folder;
  for (const std::int64_t step : {0, 1}) {
    for (const std::string name : {"first", "second"}) {
      log_run(
          {.name = name, .per_rank = name == "second", .every_n_steps = 1},
          step == 0 ? run_in(folder.path()) : resumed_in(folder.path(), step, folder / "first/version_0/checkpoints/last.ckpt"),
          {row_of(step, {{name, 1.0 + static_cast<double>(step)}})});
    }
  }
  CHECK(read_text(folder / "first/version_1/metrics.csv") == "epoch,first,step\n0,1.0,0\n0,2.0,1\n");
  for (const char* file : {"metrics.csv", "metrics_rank_0.csv"}) {
    CHECK(read_text(folder / "second/version_1" / file) == "epoch,second,step\n0,1.0,0\n0,2.0,1\n");
  }
}

TEST_CASE("a logger used before its run started is misused; a place that cannot be written is an error with its path") {
  CsvLogger logger;
  CHECK_THROWS_AS(logger.log_metrics(row_of(0, {})), levin::MisuseError);
  CHECK_THROWS_AS(logger.log_rank_metrics(row_of(0, {})), levin::MisuseError);
  CHECK_THROWS_AS(logger.log_hyperparams(Value(Value::Map{})), levin::MisuseError);
  CHECK_NOTHROW(logger.save());
  CHECK_NOTHROW(logger.finalize("failed"));
  CHECK_THROWS_WITH(CsvLogger({.save_dir = "/proc/levin"}).open(run_in("/tmp")), Catch::Contains("/proc/levin"));
  const TemporaryFolder folder;
  std::ofstream(folder / "logs") << "a file in the place of a folder";
  CHECK_THROWS_AS(logger.open(run_in(folder.path())), levin::IoError);
  CHECK_THROWS_WITH(logger.open(run_in(folder.path())), Catch::Contains((folder / "logs").string()));
}

TEST_CASE("the next version is one above the highest") {
  const TemporaryFolder folder;
  const auto next = [&] { return CsvLogger().open(run_in(folder.path())); };
  CHECK(next() == folder / "logs/version_0");
  CHECK(next() == folder / "logs/version_1");
  for (const char* name :
       {"version_7", "version_x", "version_", "version_-9", "version_99x", "other", "version_99999999999999999999"}) {
    fs::create_directories(folder / "logs" / name);
  }
  CHECK(next() == folder / "logs/version_8");
  fs::remove_all(folder / "logs/version_1");
  CHECK(next() == folder / "logs/version_9");
}

TEST_CASE("runs that start at the same moment get folders of their own") {
  const TemporaryFolder folder;
  constexpr int kRuns = 16;
  std::vector<std::string> made(kRuns);
  std::vector<std::thread> runs;
  for (std::string& path : made) runs.emplace_back([&] { path = CsvLogger().open(run_in(folder.path())); });
  for (std::thread& run : runs) run.join();
  CHECK(std::set<std::string>(made.begin(), made.end()).size() == kRuns);
}
