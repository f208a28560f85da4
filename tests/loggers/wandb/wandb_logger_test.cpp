#include "levin/loggers/wandb/wandb_logger.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/console/pseudo_terminal.h"
#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"
#include "levin/loggers/csv_logger.h"
#include "levin/loggers/wandb/account.h"
#include "levin/loggers/wandb/digest.h"
#include "levin/loggers/wandb/record_file.h"
#include "loggers/logger_run.h"
#include "wandb/messages.pb.h"

using namespace levin;
using namespace levin::test;
using wandb::Record;
namespace fs = std::filesystem;

namespace {

using Variable = EnvironmentVariable;

/// The folders of runs, the oldest first.
std::vector<fs::path> runs_in(const fs::path& root) {
  std::vector<fs::path> folders;
  if (!fs::exists(root / "wandb")) return folders;
  for (const auto& entry : fs::directory_iterator(root / "wandb")) {
    if (!entry.is_symlink()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

std::vector<Record> records_of(const fs::path& folder) {
  std::vector<Record> records;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".wandb") continue;
    wandb::RecordReader reader(entry.path());
    for (std::string bytes; reader.next(bytes);) REQUIRE(records.emplace_back().ParseFromString(bytes));
  }
  return records;
}

using Fields = std::map<std::string, std::string>;

template <class Items>
Fields fields_of(const Items& items) {
  Fields fields;
  for (const auto& item : items) fields[item.key()] = item.value_json();
  return fields;
}

/// The rows of a run's folder, without time.
std::vector<Fields> rows_of(const fs::path& folder) {
  std::vector<Fields> rows;
  for (const Record& record : records_of(folder)) {
    if (!record.has_history()) continue;
    Fields& row = rows.emplace_back(fields_of(record.history().item()));
    CHECK(row.at("_step") == std::to_string(record.history().step().num()));
    CHECK(std::stod(row.at("_timestamp")) > 1.7e9);
    CHECK(std::stod(row.at("_runtime")) >= 0);
    row.erase("_timestamp");
    row.erase("_runtime");
  }
  return rows;
}

Record only(const std::vector<Record>& records, bool (Record::*has)() const) {
  const auto found = std::ranges::find_if(records, [&](const Record& record) { return (record.*has)(); });
  REQUIRE(found != records.end());
  return *found;
}

}  // namespace

TEST_CASE("rows have levin's step as x axis, and W&B's own is their number") {
  const TemporaryFolder root;
  WandbLogger logger({.id = "abc", .offline = true});
  start(logger, run_in(root.path()));
  const double infinity = std::numeric_limits<double>::infinity();
  logger.log_metrics(row_of(9, {{"loss", 0.1}, {"accuracy", 1.0}}, 2));
  logger.log_metrics(row_of(19, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"worst", -infinity}}, 3));
  logger.save();
  const fs::path folder = runs_in(root.path()).at(0);
  CHECK(rows_of(folder) ==
        std::vector<Fields>{
            {{"_step", "0"}, {"trainer/global_step", "9"}, {"epoch", "2"}, {"loss", "0.1"}, {"accuracy", "1.0"}},
            {{"_step", "1"}, {"trainer/global_step", "19"}, {"epoch", "3"}, {"loss", "NaN"}, {"worst", "-Infinity"}}});
  std::map<std::string, std::string> axes;
  Fields summary;
  for (const Record& record : records_of(folder)) {
    CHECK(record.info().stream_id() == "abc");
    if (record.has_metric()) axes[record.metric().name()] = record.metric().step_metric();
    for (const auto& item : record.summary().update()) summary[item.key()] = item.value_json();
  }
  const std::string step = "trainer/global_step";
  CHECK(axes == Fields{{"accuracy", step}, {"epoch", step}, {"loss", step}, {"worst", step}, {step, ""}});
  CHECK(summary.at("accuracy") == "1.0");
  CHECK(summary.at("loss") == "NaN");
  CHECK(summary.at("_step") == "1");
}

TEST_CASE("a run has its names, its hyper-parameters and how it ended") {
  const TemporaryFolder root;
  const Variable tags("WANDB_TAGS", "small,quick");
  const Variable group("WANDB_RUN_GROUP", "of the environment");
  const Variable name("WANDB_NAME", "also");
  WandbLogger logger({.project = "digits", .name = "first", .entity = "us", .notes = "why", .offline = true});
  start(logger, run_in(root.path()));
  logger.log_hyperparams(Value::Map{{"model", Value::Map{{"lr", 0.5}, {"layers", Value::List{1, 2}}}}});
  logger.log_outcome({.status = "failed", .failure = "rank 0: \"no\""});
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.finalize("failed");
  CHECK(logger.name() == "digits");
  const std::vector<Record> records = records_of(runs_in(root.path()).at(0));
  CHECK(records.front().has_header());
  const Record record = only(records, &Record::has_run);
  const auto& run = record.run();
  CHECK((run.project() == "digits" && run.display_name() == "first" && run.entity() == "us" && run.notes() == "why"));
  CHECK((run.run_group() == "of the environment" && run.tags_size() == 2 && run.tags(1) == "quick"));
  CHECK_FALSE(run.resume());
  const auto config = fields_of(only(records, &Record::has_config).config().update());
  CHECK(parse_json(config.at("model")) == Value(Value::Map{{"lr", 0.5}, {"layers", Value::List{1, 2}}}));
  CHECK(fields_of(only(records, &Record::has_summary).summary().update()).at("failure") == "\"rank 0: \\\"no\\\"\"");
  CHECK(records.back().exit().exit_code() == 1);
}

TEST_CASE("images, histograms, texts and tables are separate rows, with files") {
  const TemporaryFolder root;
  std::ofstream(root / "notes.txt") << "of the user's";
  WandbLogger logger({.offline = true});
  start(logger, run_in(root.path()));
  CHECK(logger.log_item({.name = "samples/a", .step = 4, .content = LoggedImage{"bytes", 3, 2, 1}}));
  CHECK(logger.log_item({.name = "weight", .step = 5, .content = LoggedHistogram{{0.5, 2}, {1, 2}, -1, 2, 2.5, 6, 3}}));
  CHECK(logger.log_item({.name = "note", .step = 6, .content = LoggedText{"a < b & c"}}));
  CHECK(logger.log_item({.name = "errors", .step = 7, .content = Table{{"what", "n"}, {{"a", 3}, {0.5, nullptr}}}}));
  CHECK(logger.log_item({.name = "notes", .step = 8, .content = LoggedFile{root / "notes.txt"}}));
  logger.save();
  const fs::path folder = runs_in(root.path()).at(0);
  const std::vector<Fields> rows = rows_of(folder);
  REQUIRE(rows.size() == 4);
  const Value image = parse_json(rows[0].at("samples/a"));
  CHECK(image == Value(Value::Map{{"_type", "image-file"},
                                  {"format", "png"},
                                  {"width", 3},
                                  {"height", 2},
                                  {"path", "media/images/samples/a/000004.png"},
                                  {"sha256", wandb::sha256("bytes")},
                                  {"size", 5}}));
  CHECK(rows[0].at("trainer/global_step") == "4");
  CHECK(parse_json(rows[1].at("weight")) ==
        Value(Value::Map{{"_type", "histogram"}, {"values", Value::List{1, 2}}, {"bins", Value::List{-1.0, 0.5, 2.0}}}));
  const Value note = parse_json(rows[2].at("note"));
  CHECK(note.at("_type") == Value("html-file"));
  CHECK_THAT(read_text(folder / "files" / note.at("path").as_string()), Catch::Contains(">a &lt; b &amp; c</pre>"));
  const Value table = parse_json(rows[3].at("errors"));
  CHECK((table.at("ncols") == Value(2) && table.at("nrows") == Value(2)));
  CHECK(parse_json(read_text(folder / "files" / table.at("path").as_string())) ==
        Value(Value::Map{{"columns", Value::List{"what", "n"}},
                         {"data", Value::List{Value::List{"a", 3}, Value::List{0.5, nullptr}}}}));
  std::vector<std::string> files;
  for (const Record& record : records_of(folder)) {
    for (const auto& file : record.files().files()) files.push_back(file.path());
  }
  CHECK(files == std::vector<std::string>{"media/images/samples/a/000004.png", note.at("path").as_string(),
                                          table.at("path").as_string(), "media/files/notes/000008_notes.txt"});
  for (const std::string& file : files) CHECK(fs::exists(folder / "files" / file));
}

TEST_CASE("a run that resumes has the same id, continues its row numbers, and sends nothing twice") {
  const TemporaryFolder root;
  RowCounts known;
  std::string id;
  fs::path earlier;
  {
    WandbLogger logger({.offline = true});
    start(logger, run_in(root.path()));
    id = logger.version();
    CHECK(logger.log_dir() == root / "levin_logs" / id);
    earlier = logger.log_dir();
    logger.log_metrics(row_of(0, {{"loss", 1.0}}));
    logger.log_metrics(row_of(1, {{"loss", 2.0}}));
    logger.log_item({.name = "note", .step = 1, .content = LoggedText{"at 1"}});
    known = logger.rows_written();
    logger.log_metrics(row_of(2, {{"loss", 3.0}}));
    logger.log_item({.name = "note", .step = 2, .content = LoggedText{"at 2"}});
    logger.save();
  }
  CHECK(known.rows == 2);
  RunInfo run = resumed_in(root.path(), 2, earlier);
  if (GENERATE(true, false)) run.resume_rows = known;  // else by the step
  WandbLogger logger({.offline = true});
  start(logger, run);
  CHECK(logger.version() == id);
  CHECK(logger.rows_written().rows == 2);
  logger.log_metrics(row_of(2, {{"loss", 3.0}}));
  logger.log_item({.name = "note", .step = 2, .content = LoggedText{"at 2"}});
  logger.log_metrics(row_of(3, {{"loss", 4.0}}));
  logger.log_item({.name = "note", .step = 3, .content = LoggedText{"at 3"}});
  logger.finalize("success");
  const std::vector<fs::path> folders = runs_in(root.path());
  REQUIRE(folders.size() == 2);
  std::vector<std::string> steps;
  std::vector<std::string> numbers;
  for (const fs::path& folder : folders) {
    for (const Fields& row : rows_of(folder)) {
      steps.push_back(row.at("trainer/global_step") + (row.contains("note") ? "n" : ""));
      numbers.push_back(row.at("_step"));
    }
  }
  CHECK(steps == std::vector<std::string>{"0", "1", "1n", "2", "2n", "3", "3n"});
  CHECK(numbers == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"});
  CHECK(only(records_of(folders[1]), &Record::has_run).run().resume());
}

TEST_CASE("a FIFO among the files of earlier parts is refused, and not waited for") {
  const TemporaryFolder root;
  fs::path folder;
  {
    WandbLogger logger({.offline = true});
    start(logger, run_in(root.path()));
    folder = logger.log_dir();
    logger.log_metrics(row_of(0, {{"loss", 1.0}}));
    logger.finalize("success");
  }
  const fs::path part = runs_in(root.path()).at(0);
  const fs::path odd = part.parent_path() / ("offline-run-20200101_000000-" + folder.filename().string()) /
                       ("run-" + folder.filename().string() + ".wandb");
  fs::create_directories(odd.parent_path());
  REQUIRE(mkfifo(odd.c_str(), 0600) == 0);
  WandbLogger logger({.offline = true});
  CHECK_THROWS_WITH(start(logger, resumed_in(root.path(), 1, folder)),
                    Catch::Contains(odd.string()) && Catch::Contains("not a regular file"));
}

TEST_CASE("a test after a fit adds to the run, and a new logger begins another") {
  const TemporaryFolder root;
  WandbLogger logger({.offline = true});
  start(logger, run_in(root.path()));
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.finalize("success");
  const std::string id = logger.version();
  start(logger, run_in(root.path()));
  logger.log_metrics(row_of(0, {{"test_loss", 1.0}}));
  logger.finalize("success");
  CHECK(logger.version() == id);
  CHECK(rows_of(runs_in(root.path()).at(1)).at(0).at("_step") == "1");
  WandbLogger other({.offline = true});
  start(other, run_in(root.path()));
  CHECK(other.version() != id);
  other.finalize("success");
}

TEST_CASE("another attempt of a run continues it") {
  const TemporaryFolder root;
  WandbLogger first({.offline = true});
  RunInfo run = run_in(root.path());
  run.earlier_token = first.open(run);
  first.attach(run_in(root.path()), run.earlier_token);
  first.log_metrics(row_of(0, {{"loss", 1.0}}));
  first.save();
  WandbLogger second({.offline = true});
  start(second, run);
  CHECK(second.version() == first.version());
  second.log_metrics(row_of(0, {{"loss", 1.0}}));
  second.log_metrics(row_of(1, {{"loss", 2.0}}));
  second.save();
  CHECK(rows_of(runs_in(root.path()).at(1)).size() == 1);
}

TEST_CASE("other ranks' items and unreduced values are runs of the same group") {
  const TemporaryFolder root;
  WandbLogger zero({.name = "both", .offline = true, .per_rank = true, .every_n_steps = 2});
  WandbLogger one({.name = "both", .offline = true});
  RunInfo run = run_in(root.path());
  run.world_size = 2;
  const std::string token = zero.open(run);
  zero.attach(run, token);
  one.attach(run_in(root.path(), 1), token);
  CHECK(runs_in(root.path()).size() == 2);
  for (std::int64_t step = 0; step < 4; ++step)
    zero.log_rank_metrics(row_of(step, {{"loss", 1.0 + static_cast<double>(step)}}));
  one.log_item({.name = "note", .step = 3, .rank = 1, .content = LoggedText{"of rank 1"}});
  zero.finalize("success");
  one.finalize("success");
  std::map<std::string, std::pair<std::string, std::size_t>> told;
  for (const fs::path& folder : runs_in(root.path())) {
    const Record record = only(records_of(folder), &Record::has_run);
    const auto& named = record.run();
    CHECK(named.run_group() == zero.version());
    told[named.display_name()] = {named.job_type(), rows_of(folder).size()};
  }
  CHECK(told == decltype(told){{"both", {"", 0}}, {"both-rank_0", {"rank", 2}}, {"both-rank_1", {"rank", 1}}});
}

TEST_CASE("checkpoints are files of the run, at its end or when they are saved") {
  const TemporaryFolder root;
  const Value log_model = GENERATE(Value(true), Value("all"));
  WandbLogger logger({.offline = true, .log_model = log_model});
  start(logger, run_in(root.path()));
  for (const char* name : {"a.ckpt", "b.ckpt"}) {
    std::ofstream(root / name) << name;
    logger.after_save_checkpoint(root / name);
  }
  fs::remove(root / "a.ckpt");  // as ModelCheckpoint does with what is not among the best
  logger.finalize("success");
  const fs::path checkpoints = runs_in(root.path()).at(0) / "files" / "checkpoints";
  CHECK(fs::exists(checkpoints / "a.ckpt") == (log_model == Value("all")));
  CHECK(read_text(checkpoints / "b.ckpt") == "b.ckpt");
}

TEST_CASE("its id is saved in the folder of a logger that comes before it") {
  const TemporaryFolder root;
  CsvLogger csv;
  RunInfo run = run_in(root.path());
  start(csv, run);
  run.open_folders.push_back(csv.log_dir());
  WandbLogger logger({.offline = true});
  start(logger, run);
  CHECK(logger.log_dir() == csv.log_dir());
  CHECK(read_text(csv.log_dir() / "wandb_run.txt") == logger.version() + "\n");
  logger.finalize("success");
}

TEST_CASE("WANDB_MODE=disabled writes nothing, and a start that failed leaves nothing") {
  const TemporaryFolder root;
  {
    const Variable mode("WANDB_MODE", "disabled");
    WandbLogger logger({.offline = true});
    start(logger, run_in(root.path()));
    logger.log_metrics(row_of(0, {{"loss", 1.0}}));
    CHECK(logger.log_item({.name = "note", .content = LoggedText{"none"}}));
    logger.finalize("success");
  }
  CHECK(fs::is_empty(root.path()));
  WandbLogger logger({.offline = true});
  start(logger, run_in(root.path()));
  logger.finalize("failed");
  CHECK(fs::is_empty(root.path()));
}

TEST_CASE("without wandb-core, or without a key, a run is offline") {
  const TemporaryFolder root;
  const Variable key("WANDB_API_KEY", nullptr);
  const Variable home("HOME", root.path().c_str());
  const Variable path("PATH", root.path().c_str());
  const Variable core("WANDB_CORE", nullptr);
  CHECK(wandb::find_core("").empty());
  CHECK_THROWS_WITH(wandb::find_core(root / "none"), Catch::Contains("is not a program"));
  if (GENERATE(true, false)) {
    std::ofstream(root / "wandb-core") << "#!/bin/sh\nexit 3\n";
    fs::permissions(root / "wandb-core", fs::perms::owner_all);
    CHECK(wandb::find_core("") == root / "wandb-core");
  }
  const Variable given("WANDB_API_KEY", GENERATE("", "a key"));
  WandbLogger logger;
  start(logger, run_in(root / "runs"));
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.finalize("success");
  const fs::path folder = runs_in(root / "runs").at(0);
  CHECK(folder.filename().string().starts_with("offline-run-"));
  CHECK(rows_of(folder).size() == 1);
}

TEST_CASE("the key is that of the server's host in netrc") {
  const TemporaryFolder root;
  std::ofstream(root / "keys")
      << "machine api.wandb.ai\n  login user\n  password public\nmachine 127.0.0.1 login user password own\n";
  const Variable key("WANDB_API_KEY", nullptr);
  const Variable netrc("NETRC", (root / "keys").c_str());
  const Variable url("WANDB_BASE_URL", nullptr);
  CHECK(wandb::Account::of_user().api_key == "public");
  CHECK(wandb::Account::of_user().page_of("us", "digits", "abc") == "https://wandb.ai/us/digits/runs/abc");
  const Variable own("WANDB_BASE_URL", "http://127.0.0.1:8080/");
  CHECK(wandb::Account::of_user().api_key == "own");
  CHECK(wandb::Account::of_user().page_of("us", "digits", "abc") == "http://127.0.0.1:8080/us/digits/runs/abc");
  const Variable other("WANDB_BASE_URL", "https://elsewhere.org");
  CHECK(wandb::Account::of_user().api_key.empty());
}
