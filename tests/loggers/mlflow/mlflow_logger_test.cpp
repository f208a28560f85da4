#include "levin/loggers/mlflow/mlflow_logger.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/loggers/csv_logger.h"
#include "levin/loggers/mlflow/journal.h"
#include "loggers/logger_run.h"

using namespace levin;
using namespace levin::test;
using mlflow::Journal;
namespace fs = std::filesystem;

namespace {

/// A server that does not answer.
constexpr const char* kNobody = "http://127.0.0.1:1";
MLflowLoggerOptions options() { return {.tracking_uri = kNobody, .end_timeout = 1}; }

std::vector<Value> entries_in(const fs::path& run_folder, int rank = 0) {
  const Journal journal(Journal::file_of(run_folder, rank));
  std::vector<Value> values;
  for (const Journal::Entry& entry : journal.entries(journal.first())) values.push_back(entry.value);
  return values;
}

std::string key_in(const fs::path& run_folder, int rank = 0) {
  return Journal(Journal::file_of(run_folder, rank)).header().at("key").as_string();
}

Value map_of(const char* name, Value value) { return Value::Map{{name, std::move(value)}}; }

}  // namespace

TEST_CASE("what is logged waits in the folder of the run for a server that is away") {
  const TemporaryFolder root;
  CsvLogger csv;
  MLflowLogger logger({.tracking_uri = kNobody, .prefix = "fold1", .end_timeout = 1});
  RunInfo run = run_in(root.path());
  start(csv, run);
  run.open_folders.push_back(csv.log_dir());
  start(logger, run);
  CHECK(logger.log_dir() == csv.log_dir());
  CHECK(!MLflowLogger::has_journal(logger.log_dir()));
  logger.log_hyperparams(map_of("model", map_of("lr", 0.002)));
  logger.log_metrics(row_of(3, {{"loss", 0.5}, {"a$b", 1}}, 2));
  logger.log_metrics(row_of(3, {{"epoch", 7}}));
  std::thread([&] { logger.log_item({.name = "note", .step = 3, .content = LoggedText{"text"}}); }).join();
  logger.log_item({.name = "table", .step = 3, .content = Table{{"a", "b"}, {{1, "x"}, {Value(), 0.5}}}});
  CHECK(logger.rows_written().rows == 2);
  logger.log_outcome({.status = "failed", .failure = "broken"});
  logger.finalize("failed");

  const std::vector<Value> entries = entries_in(logger.log_dir());
  REQUIRE(entries.size() == 7);
  CHECK(entries[0] == map_of("params", map_of("model.lr", "0.002")));
  CHECK(entries[1].at("metrics") == Value(Value::Map{{"epoch", 2.0}, {"fold1-a_b", 1.0}, {"fold1-loss", 0.5}}));
  CHECK(entries[2].at("metrics") == map_of("fold1-epoch", 7.0));
  CHECK(entries[1].at("time").as_int() < entries[2].at("time").as_int());
  CHECK(entries[3] == Value(Value::Map{{"artifact", "texts/note/000003.txt"}, {"file", "media/texts/note/000003.txt"}}));
  CHECK(entries[4].at("artifact") == Value("tables/table/000003.json"));
  CHECK(read_text(logger.log_dir() / "media/tables/table/000003.json").find("\"x\"") != std::string::npos);
  CHECK(entries[5] == map_of("tags", map_of("failure", "broken")));
  CHECK(entries[6].at("status") == Value("FAILED"));
}

TEST_CASE("a start that failed leaves nothing behind") {
  const TemporaryFolder root;
  MLflowLogger logger(options());
  start(logger, run_in(root.path()));
  logger.log_outcome({.status = "failed", .failure = "no data"});
  logger.finalize("failed");
  CHECK(!fs::exists(root.path() / "logs" / "version_0"));
}

TEST_CASE("a second run of a logger continues the journal, that of another logger renames it") {
  const TemporaryFolder root;
  MLflowLoggerOptions chosen = options();
  chosen.version = 0;
  const fs::path folder = root.path() / "logs" / "version_0";
  MLflowLogger logger(chosen);
  for (const std::size_t entries : {1U, 3U}) {
    start(logger, run_in(root.path()));
    logger.save();
    logger.finalize("success");
    CHECK(entries_in(folder).size() == entries);
  }
  const std::string key = key_in(folder);
  CHECK(entries_in(folder)[1] == map_of("status", "RUNNING"));
  MLflowLogger other(chosen);
  start(other, run_in(root.path()));
  other.save();
  other.finalize("success");
  CHECK(entries_in(folder).size() == 1);
  CHECK(key_in(folder) != key);
  CHECK(fs::exists(folder / "mlflow" / "journal.jsonl.bak-1"));
}

TEST_CASE("a run that resumes from a checkpoint is the same run of the server, and another for another experiment") {
  const TemporaryFolder root;
  const fs::path folder = root.path() / "logs" / "version_0";
  MLflowLogger first(options());
  start(first, run_in(root.path()));
  for (std::int64_t step = 0; step < 4; ++step) first.log_metrics(row_of(step, {{"loss", 0.5}}));
  first.finalize("failed");
  RunInfo run = run_in(root.path());
  run.resuming = true;
  run.resume_step = 2;
  run.resume_rows = {2, 0};
  run.resume_checkpoint = folder / "checkpoints" / "last.ckpt";

  MLflowLogger again(options());
  start(again, run);
  CHECK(again.rows_written().rows == 2);
  CHECK(again.log_dir() == root.path() / "logs" / "version_1");
  CHECK(key_in(folder) != "");
  again.finalize("success");
  CHECK(key_in(again.log_dir()) == key_in(folder));
  CHECK(entries_in(again.log_dir()).size() == 4);  // two rows, RUNNING, FINISHED
  CHECK_THROWS_WITH(MLflowLogger::sync(folder), Catch::Contains("continues in " + again.log_dir().string()));

  MLflowLoggerOptions elsewhere = options();
  elsewhere.experiment_name = "other";
  MLflowLogger other(elsewhere);
  start(other, run);
  other.save();
  other.finalize("success");
  CHECK(key_in(other.log_dir()) != key_in(folder));
  CHECK(entries_in(other.log_dir()).size() == 1);
}

TEST_CASE("each rank has a journal for the same run") {
  const TemporaryFolder root;
  MLflowLoggerOptions chosen = options();
  chosen.per_rank = true;
  chosen.every_n_steps = 2;
  MLflowLogger zero(chosen);
  MLflowLogger one(chosen);
  const std::string token = zero.open(run_in(root.path()));
  zero.attach(run_in(root.path()), token);
  one.attach(run_in(root.path(), 1), token);
  zero.save();
  one.save();
  for (std::int64_t step = 0; step < 4; ++step) one.log_rank_metrics(row_of(step, {{"loss", 0.5}}));
  CHECK(one.rows_written().rows == -1);
  CHECK(one.rows_written().rank_rows == 2);
  for (MLflowLogger* logger : {&zero, &one}) logger->finalize("success");
  const std::vector<Value> entries = entries_in(zero.log_dir(), 1);
  REQUIRE(entries.size() == 2);
  CHECK(entries[1].at("step").as_int() == 3);
  CHECK(entries[1].at("metrics") == map_of("loss/rank_1", 0.5));
  CHECK(key_in(zero.log_dir(), 1) == key_in(zero.log_dir()));
}
