#include "levin/cli/runs/run_index.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "levin/cli/runs/run_record.h"
#include "levin/cli/runs/sqlite_statement.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::write_file;
using levin::cli::find_run_records;
using levin::cli::RunIndex;
using levin::cli::RunRecord;
using levin::test::TemporaryFolder;

namespace {

/// A folder with two runs, one of which has tags.
void write_runs(const fs::path& folder) {
  write_file(folder / "version_0/run.json", R"({"status": "finished", "started": "2026-11-26 14:02:47", "seconds": 1.5})");
  write_file(folder / "version_0/metrics.csv", "epoch,step,loss\n0,0,0.5\n1,1,0.25\n1,2,0.375\n");
  write_file(folder / "version_0/config.yaml", "# levin 0.1.0\nmodel:\n  class_path: Digits\n  init_args: {lr: 0.5}\n");
  write_file(folder / "version_1/run.json", R"({"status": "failed"})");
  write_file(folder / "version_1/tags.json", R"(["bad"])");
}

void check_first(const RunRecord& run) {
  CHECK(run.name == "version_0");
  CHECK(run.status == "finished");
  CHECK(run.started == "2026-11-26 14:02:47");
  CHECK(run.seconds == 1.5);
  CHECK(run.config.at("model").at("init_args").at("lr").as_double() == 0.5);
  CHECK(run.summary.epochs == 2);
  REQUIRE(run.summary.metrics.contains("loss"));
  CHECK(run.summary.metrics.at("loss").last == 0.375);
  CHECK(run.summary.metrics.at("loss").min == 0.25);
  CHECK(run.summary.metrics.at("loss").max == 0.5);
}

/// Puts a word into the file that only a reader of the file sees.
void mark_kept_rows(const fs::path& file) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  levin::cli::SqliteStatement(database, "UPDATE runs SET failure = 'kept'").run();
  sqlite3_close(database);
}

}  // namespace

TEST_CASE("what has not changed comes from the index, and is what was read") {
  const TemporaryFolder folder;
  write_runs(folder.path());
  check_first(find_run_records({folder.path()})[0]);
  mark_kept_rows(folder / "runs.sqlite");
  const std::vector<RunRecord> again = find_run_records({folder.path()});
  REQUIRE(again.size() == 2);
  check_first(again[0]);
  CHECK(again[0].failure == "kept");
  CHECK(again[1].tags == std::vector<std::string>{"bad"});
  write_file(folder / "version_1/tags.json", R"(["bad", "old"])");
  fs::remove_all(folder / "version_0");
  const std::vector<RunRecord> changed = find_run_records({folder.path()});
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].failure.empty());
  CHECK(changed[0].tags == std::vector<std::string>{"bad", "old"});
  write_runs(folder.path());
  CHECK(find_run_records({folder.path()})[0].failure.empty());  // forgotten with its folder
}

TEST_CASE("an index that is damaged, of another version or somebody else's is made anew") {
  const TemporaryFolder folder;
  write_runs(folder.path());
  for (const bool is_database : {false, true}) {
    fs::remove(folder / "runs.sqlite");
    std::ofstream(folder / "runs.sqlite") << (is_database ? "" : "no database, but some text that is longer than its header");
    if (is_database) {
      sqlite3* database = nullptr;
      REQUIRE(sqlite3_open((folder / "runs.sqlite").c_str(), &database) == SQLITE_OK);
      levin::cli::SqliteStatement(database, "CREATE TABLE runs (other TEXT)").run();
      sqlite3_close(database);
    }
    check_first(find_run_records({folder.path()})[0]);
    mark_kept_rows(folder / "runs.sqlite");
    CHECK(find_run_records({folder.path()})[0].failure == "kept");
  }
}

TEST_CASE("a run that is on is read each time, a run has no index inside, and NaN stays NaN") {
  const TemporaryFolder folder;
  RunIndex index(folder.path());
  RunRecord run;
  run.path = folder / "version_0";
  run.status = "running";
  write_file(run.path / "metrics.csv", "");
  index.put(run);
  CHECK_FALSE(index.find(run.path));
  run.status = "finished";
  run.summary.metrics["loss"] = {std::numeric_limits<double>::quiet_NaN(), 1, 2};
  index.put(run);
  REQUIRE(index.find(run.path));
  CHECK(std::isnan(index.find(run.path)->summary.metrics.at("loss").last));
  CHECK(find_run_records({run.path}).size() == 1);
  CHECK_FALSE(fs::exists(run.path / "runs.sqlite"));
}
