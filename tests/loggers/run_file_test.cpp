#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/descriptor.h"
#include "levin/loggers/csv_logger.h"
#include "loggers/logger_run.h"
#include "support/error_of.h"

using namespace levin::test;
using levin::CsvLogger;
using levin::RunInfo;
namespace fs = std::filesystem;

namespace {

CsvLogger started_in(const fs::path& folder, levin::CsvLoggerOptions options = {}) {
  CsvLogger logger(std::move(options));
  start(logger, {.world_size = 2, .default_root_dir = folder});
  return logger;
}

/// A run of the version "same".
CsvLogger started_again_in(const fs::path& folder) { return started_in(folder, {.version = "same"}); }

/// Another process, with a run of this version that is on.
class OtherRun {
 public:
  explicit OtherRun(const fs::path& folder) {
    std::array<int, 2> ready{};
    REQUIRE(pipe(ready.data()) == 0);
    process_ = fork();
    if (process_ == 0) {
      const CsvLogger logger = started_again_in(folder);
      if (write(ready[1], "r", 1) == 1) pause();
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    const bool has_begun = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    REQUIRE(has_begun);
  }
  ~OtherRun() { end(); }
  OtherRun(const OtherRun&) = delete;
  OtherRun& operator=(const OtherRun&) = delete;

  pid_t process() const { return process_; }
  void end() {
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

nlohmann::json record_in(const TemporaryFolder& folder, const std::string& version = "version_0") {
  return nlohmann::json::parse(read_text(folder / "logs" / version / "run.json"));
}

}  // namespace

TEST_CASE("run.json says that a run is on, by which process and, later, how it has ended") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  const nlohmann::json during = record_in(folder);
  CHECK(during["status"] == "running");
  CHECK(during["pid"] == getpid());
  CHECK(during["process_start"] == levin::ProcessId::self().start_time);
  CHECK(during["host"] == levin::host_name());
  CHECK(during["ranks"] == 2);
  CHECK(during["started"].get<std::string>().size() == std::string("2026-11-26 14:02:47").size());
  CHECK_FALSE(during.contains("seconds"));
  logger.log_outcome({.status = "success", .stop_reason = "max_epochs=5 reached", .warnings = {"few workers"}});
  logger.finalize("success");
  const nlohmann::json after = record_in(folder);
  CHECK(after["status"] == "finished");
  CHECK(after["stop_reason"] == "max_epochs=5 reached");
  CHECK(after["warnings"] == std::vector<std::string>{"few workers"});
  CHECK_FALSE(after.contains("failure"));
  CHECK(after["started"] == during["started"]);
  CHECK(after["seconds"] >= 0);
}

TEST_CASE("what a test after a fit says in run.json is added to what the fit has said") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  levin::write_file(folder / "logs/version_0/config.yaml", "model: Digits\n");
  logger.log_outcome({.status = "success", .stop_reason = "max_steps=9 reached"});
  logger.finalize("success");
  start(logger, run_in(folder.path()));
  CHECK(record_in(folder)["status"] == "running");
  logger.log_outcome({.status = "failed", .failure = "rank 1 failed in test_step: no such file"});
  logger.finalize("failed");
  const nlohmann::json record = record_in(folder);
  CHECK(record["status"] == "failed");
  CHECK(record["stop_reason"] == "max_steps=9 reached");
  CHECK(record["failure"] == "rank 1 failed in test_step: no such file");
}

TEST_CASE("a failed run leaves run.json if it has left any other file, also where that was broken, and else nothing") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  levin::write_file(folder / "logs/version_0/config.yaml", "model: Digits\n");
  levin::write_file(folder / "logs/version_0/run.json", "{");
  logger.finalize("failed");
  CHECK(record_in(folder)["status"] == "failed");
  CHECK_FALSE(record_in(folder).contains("started"));
  CsvLogger unused = started_in(folder.path());
  CHECK(fs::exists(folder / "logs/version_1/run.json"));
  unused.finalize("failed");
  CHECK_FALSE(fs::exists(folder / "logs/version_1"));
}

TEST_CASE("run.json says what metrics have come to, while the run is on and in the end") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  logger.log_metrics({.epoch = 0, .step = 0, .values = {{"loss", 0.5}, {"bad", kNaN}, {"rank_1_loss", 9.0}}});
  logger.log_metrics({.epoch = 2, .step = 1, .values = {{"loss", 0.1}, {"lr", 1e-3}, {"step", 7.0}, {"bad", -kInfinity}}});
  logger.save();
  const nlohmann::json during = record_in(folder);
  CHECK(during["status"] == "running");
  CHECK(during["epochs"] == 3);
  CHECK(during["metrics_csv_bytes"] == fs::file_size(folder / "logs/version_0/metrics.csv"));
  CHECK(during["metrics"]["loss"] == nlohmann::json{{"last", 0.1}, {"min", 0.1}, {"max", 0.5}});
  CHECK(during["metrics"]["bad"] == nlohmann::json{{"last", "-inf"}, {"min", "nan"}, {"max", "nan"}});
  logger.log_metrics({.epoch = 2, .step = 2, .values = {{"loss", kNaN}, {"bad", kInfinity}}});
  logger.finalize("success");
  const nlohmann::json record = record_in(folder);
  CHECK(record["epochs"] == 3);
  CHECK(record["metrics_csv_bytes"] == fs::file_size(folder / "logs/version_0/metrics.csv"));
  REQUIRE(record["metrics"].size() == 3);
  CHECK(record["metrics"]["loss"] == nlohmann::json{{"last", "nan"}, {"min", 0.1}, {"max", 0.5}});
  CHECK(record["metrics"]["lr"] == nlohmann::json{{"last", 1e-3}, {"min", 1e-3}, {"max", 1e-3}});
  CHECK(record["metrics"]["bad"]["last"] == "inf");

  // During a test after the fit they are unknown.
  start(logger, run_in(folder.path()));
  for (const char* key : {"epochs", "metrics_csv_bytes", "metrics"}) CHECK_FALSE(record_in(folder).contains(key));
  logger.log_metrics({.epoch = 2, .step = 3, .values = {{"test_loss", 4.0}}});
  logger.finalize("success");
  CHECK(record_in(folder)["metrics"]["loss"]["min"] == 0.1);
  CHECK(record_in(folder)["metrics"]["test_loss"]["max"] == 4.0);
}

TEST_CASE("a resumed run continues the least and the greatest value of the rows that its checkpoint has") {
  const TemporaryFolder folder;
  CsvLogger first = started_in(folder.path());
  for (const auto& [step, loss] : {std::pair(0, 0.75), std::pair(1, 0.125), std::pair(2, 99.0)})
    first.log_metrics({.epoch = step, .step = step, .values = {{"loss", loss}}});
  first.log_metrics({.epoch = 2, .step = 2, .values = {{"later", 1.0}}});
  first.finalize("failed");
  RunInfo run = resumed_in(folder.path(), 2, folder / "logs/version_0");
  run.resume_rows.rows = GENERATE(2, -1);  // counted, or those of steps before the checkpoint's
  const bool is_same_folder = GENERATE(false, true);
  CsvLogger second(is_same_folder ? levin::CsvLoggerOptions{.version = 0} : levin::CsvLoggerOptions());
  start(second, run);
  second.log_metrics({.epoch = 2, .step = 2, .values = {{"loss", 0.5}}});
  second.finalize("success");
  const nlohmann::json record = record_in(folder, second.version());
  CHECK(second.log_dir().filename() == (is_same_folder ? "version_0" : "version_1"));
  CHECK(record["metrics"] == nlohmann::json{{"loss", {{"last", 0.5}, {"min", 0.125}, {"max", 0.75}}}});
  CHECK(record["epochs"] == 3);
}

TEST_CASE("a run.json that another program has replaced is left alone while the run is on") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  levin::write_file(folder / "logs/version_0/run.json", "[1]");
  logger.log_metrics({.epoch = 0, .step = 0, .values = {{"loss", 0.5}}});
  logger.save();
  CHECK(read_text(folder / "logs/version_0/run.json") == "[1]");
}

TEST_CASE("a run does not take the folder of one that is on; when that is over, it does") {
  const TemporaryFolder folder;
  OtherRun other(folder.path());
  const std::string error = error_of<levin::ConfigError>([&] { started_again_in(folder.path()); });
  CHECK_THAT(error, Catch::Contains("logs/same is the folder of a run that is still running (process " +
                                    std::to_string(other.process())));
  CHECK(record_in(folder, "same")["pid"] == other.process());
  other.end();
  started_again_in(folder.path()).finalize("success");
  started_again_in(folder.path()).finalize("success");  // in the same process, one after the other
}

TEST_CASE("a folder that another process has locked is waited for some seconds, and no longer") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "logs/same");
  const levin::Descriptor other(open((folder / "logs/same").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(other.number(), LOCK_EX) == 0);
  const double begin = levin::steady_seconds();
  started_again_in(folder.path()).finalize("success");
  CHECK(levin::steady_seconds() - begin >= 5);
  CHECK(levin::steady_seconds() - begin < 30);
  CHECK(record_in(folder, "same")["pid"] == getpid());
}

TEST_CASE("a run.json of another program is saved under another name, whatever it is") {
  const TemporaryFolder folder;
  const fs::path own = folder / "logs/same";
  for (const std::string content : {R"({"status": "running", "pid": 1, "name": "mine"})", "no JSON", "[1]"}) {
    levin::write_file(own / "run.json", content);
    started_again_in(folder.path()).finalize("success");
    CHECK(record_in(folder, "same")["status"] == "finished");
    CHECK(read_text(own / "run.json.bak-1") == content);
    fs::remove(own / "run.json.bak-1");
  }
  // Its own is written again.
  started_again_in(folder.path()).finalize("success");
  CHECK_FALSE(fs::exists(own / "run.json.bak-1"));
}

TEST_CASE("a process that only has the number of a run's is not the run's, nor is one of another host") {
  const TemporaryFolder folder;
  OtherRun other(folder.path());
  nlohmann::json record = record_in(folder, "same");
  const auto [key, value] = GENERATE(table<std::string, nlohmann::json>(
      {{"process_start", 1}, {"host", "another" + levin::host_name()}, {"status", "finished"}, {"pid", 0}}));
  record[key] = value;
  levin::write_file(folder / "logs/same/run.json", record.dump());
  CHECK_NOTHROW(started_again_in(folder.path()));
}
