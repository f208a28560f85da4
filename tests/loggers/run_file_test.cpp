#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "levin/core/base/process.h"
#include "levin/core/files/atomic_file.h"
#include "levin/loggers/csv_logger.h"
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
  CHECK(record_in(folder) == nlohmann::json{{"status", "failed"}});
  CsvLogger unused = started_in(folder.path());
  CHECK(std::filesystem::exists(folder / "logs/version_1/run.json"));
  unused.finalize("failed");
  CHECK_FALSE(std::filesystem::exists(folder / "logs/version_1"));
}
