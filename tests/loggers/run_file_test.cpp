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
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using levin::CsvLogger;
using levin::RunInfo;
using levin::test::TemporaryFolder;

namespace {

CsvLogger started_in(const std::filesystem::path& folder) {
  CsvLogger logger;
  const RunInfo run{.world_size = 2, .default_root_dir = folder};
  logger.attach(run, logger.open(run));
  return logger;
}

/// A run of the version "same".
CsvLogger started_again_in(const std::filesystem::path& folder) {
  CsvLogger logger({.version = "same"});
  const RunInfo run{.default_root_dir = folder};
  logger.attach(run, logger.open(run));
  return logger;
}

/// Another process, with a run of this version that is on.
class OtherRun {
 public:
  explicit OtherRun(const std::filesystem::path& folder) {
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

nlohmann::json record_in(const TemporaryFolder& folder) {
  return nlohmann::json::parse(levin::test::read_text(folder / "logs/version_0/run.json"));
}

}  // namespace

TEST_CASE("run.json says that a run is on, who runs it and, later, how it has ended") {
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

TEST_CASE("what a test after a fit says in run.json stands beside what the fit has said") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  levin::write_file(folder / "logs/version_0/config.yaml", "model: Digits\n");
  logger.log_outcome({.status = "success", .stop_reason = "max_steps=9 reached"});
  logger.finalize("success");
  const RunInfo run{.world_size = 2, .default_root_dir = folder.path()};
  logger.attach(run, logger.open(run));
  CHECK(record_in(folder)["status"] == "running");
  logger.log_outcome({.status = "failed", .failure = "rank 1 failed in test_step: no such file"});
  logger.finalize("failed");
  const nlohmann::json record = record_in(folder);
  CHECK(record["status"] == "failed");
  CHECK(record["stop_reason"] == "max_steps=9 reached");
  CHECK(record["failure"] == "rank 1 failed in test_step: no such file");
}

TEST_CASE("a failed run keeps its run.json where it has left anything else, and one that somebody broke is made anew") {
  const TemporaryFolder folder;
  CsvLogger logger = started_in(folder.path());
  levin::write_file(folder / "logs/version_0/config.yaml", "model: Digits\n");
  levin::write_file(folder / "logs/version_0/run.json", "{");
  logger.finalize("failed");
  CHECK(record_in(folder)["status"] == "failed");
  CHECK_FALSE(record_in(folder).contains("started"));
  CsvLogger unused = started_in(folder.path());
  CHECK(std::filesystem::exists(folder / "logs/version_1/run.json"));
  unused.finalize("failed");
  CHECK_FALSE(std::filesystem::exists(folder / "logs/version_1"));
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
  CHECK(during["metrics_csv_bytes"] == std::filesystem::file_size(folder / "logs/version_0/metrics.csv"));
  CHECK(during["metrics"]["loss"] == nlohmann::json{{"last", 0.1}, {"min", 0.1}, {"max", 0.5}});
  CHECK(during["metrics"]["bad"] == nlohmann::json{{"last", "-inf"}, {"min", "nan"}, {"max", "nan"}});
  logger.log_metrics({.epoch = 2, .step = 2, .values = {{"loss", kNaN}, {"bad", kInfinity}}});
  logger.finalize("success");
  const nlohmann::json record = record_in(folder);
  CHECK(record["epochs"] == 3);
  CHECK(record["metrics_csv_bytes"] == std::filesystem::file_size(folder / "logs/version_0/metrics.csv"));
  REQUIRE(record["metrics"].size() == 3);
  CHECK(record["metrics"]["loss"] == nlohmann::json{{"last", "nan"}, {"min", 0.1}, {"max", 0.5}});
  CHECK(record["metrics"]["lr"] == nlohmann::json{{"last", 1e-3}, {"min", 1e-3}, {"max", 1e-3}});
  CHECK(record["metrics"]["bad"]["last"] == "inf");

  // A test after the fit: while it is on, nobody knows.
  const RunInfo run{.world_size = 2, .default_root_dir = folder.path()};
  logger.attach(run, logger.open(run));
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
  RunInfo run{.default_root_dir = folder.path(), .resuming = true, .resume_step = 2};
  run.resume_rows.rows = 2;
  run.resume_checkpoint = folder / "logs/version_0/checkpoints/last.ckpt";
  const bool is_same_folder = GENERATE(false, true);
  CsvLogger second(is_same_folder ? levin::CsvLoggerOptions{.version = 0} : levin::CsvLoggerOptions());
  second.attach(run, second.open(run));
  second.log_metrics({.epoch = 2, .step = 2, .values = {{"loss", 0.5}}});
  second.finalize("success");
  const nlohmann::json record = nlohmann::json::parse(levin::test::read_text(second.log_dir() / "run.json"));
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
  CHECK(levin::test::read_text(folder / "logs/version_0/run.json") == "[1]");
}

TEST_CASE("a run does not take the folder of one that is on; when that is over, it does") {
  const TemporaryFolder folder;
  OtherRun other(folder.path());
  const std::string error = levin::test::error_of<levin::ConfigError>([&] { started_again_in(folder.path()); });
  CHECK_THAT(error, Catch::Contains("logs/same is the folder of a run that is still running (process " +
                                    std::to_string(other.process())));
  CHECK(nlohmann::json::parse(levin::test::read_text(folder / "logs/same/run.json"))["pid"] == other.process());
  other.end();
  started_again_in(folder.path()).finalize("success");
  started_again_in(folder.path()).finalize("success");  // in the same process, one after the other
}

TEST_CASE("a folder that another process keeps locked is waited for some seconds, and no longer") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "logs/same");
  const levin::Descriptor other(open((folder / "logs/same").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(other.number(), LOCK_EX) == 0);
  const double begin = levin::steady_seconds();
  started_again_in(folder.path()).finalize("success");
  CHECK(levin::steady_seconds() - begin >= 5);
  CHECK(levin::steady_seconds() - begin < 30);
  CHECK(nlohmann::json::parse(levin::test::read_text(folder / "logs/same/run.json"))["pid"] == getpid());
}

TEST_CASE("a run.json of another program is kept beside the run's, whatever it is") {
  const TemporaryFolder folder;
  const std::filesystem::path own = folder / "logs/same";
  for (const std::string content : {R"({"status": "running", "pid": 1, "name": "mine"})", "no JSON", "[1]"}) {
    levin::write_file(own / "run.json", content);
    started_again_in(folder.path()).finalize("success");
    CHECK(nlohmann::json::parse(levin::test::read_text(own / "run.json"))["status"] == "finished");
    CHECK(levin::test::read_text(own / "run.json.bak-1") == content);
    std::filesystem::remove(own / "run.json.bak-1");
  }
  // Its own is written again.
  started_again_in(folder.path()).finalize("success");
  CHECK_FALSE(std::filesystem::exists(own / "run.json.bak-1"));
}

TEST_CASE("a process that only has the number of a run's is not the run's, nor is one of another host") {
  const TemporaryFolder folder;
  OtherRun other(folder.path());
  const std::filesystem::path file = folder / "logs/same/run.json";
  nlohmann::json record = nlohmann::json::parse(levin::test::read_text(file));
  const auto [key, value] = GENERATE(table<std::string, nlohmann::json>(
      {{"process_start", 1}, {"host", "another" + levin::host_name()}, {"status", "finished"}, {"pid", 0}}));
  record[key] = value;
  levin::write_file(file, record.dump());
  CHECK_NOTHROW(started_again_in(folder.path()));
}
