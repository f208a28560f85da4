#include "levin/loggers/tensorboard/tensorboard_logger.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/loggers/csv_logger.h"
#include "levin/loggers/tensorboard/summaries.h"
#include "loggers/logger_run.h"
#include "loggers/tensorboard/event_reader.h"

using namespace levin;
using namespace levin::test;
using tensorboard::Event;
using tensorboard::EventFile;
using tensorboard::HParamsPluginData;
namespace fs = std::filesystem;

namespace {

/// A run that resumes from a checkpoint of version_0.
RunInfo resumed_at(const TemporaryFolder& root, std::int64_t step) {
  return resumed_in(root.path(), step, root / "logs/version_0");
}

/// A run of version 0 that has logged a loss of 1 in so many steps; its file of events.
fs::path logged_before(const TemporaryFolder& root, std::int64_t steps) {
  TensorBoardLogger logger({.version = 0});
  start(logger, run_in(root.path()));
  for (std::int64_t step = 0; step < steps; ++step) logger.log_metrics(row_of(step, {{"loss", 1.0}}));
  logger.save();
  return EventFile::files_in(logger.log_dir()).at(0);
}

/// All events of a folder, file by file.
std::vector<Event> events_in(const fs::path& folder) {
  std::vector<Event> events;
  for (const fs::path& file : EventFile::files_in(folder)) {
    for (Event& event : events_of(file)) events.push_back(std::move(event));
  }
  return events;
}

std::vector<tensorboard::Summary::Value> values_in(const fs::path& folder, const std::string& tag) {
  std::vector<tensorboard::Summary::Value> values;
  for (const Event& event : events_in(folder)) {
    for (const auto& value : event.summary().value()) {
      if (value.tag() == tag) values.push_back(value);
    }
  }
  return values;
}

/// Step and value of a scalar, as TensorBoard shows them: without what a later start makes invalid.
std::multimap<std::int64_t, float> curve(const fs::path& folder, const std::string& tag) {
  std::multimap<std::int64_t, float> points;
  for (const Event& event : events_in(folder)) {
    if (event.has_session_log()) points.erase(points.lower_bound(event.step()), points.end());
    for (const auto& value : event.summary().value()) {
      if (value.tag() == tag) points.emplace(event.step(), value.simple_value());
    }
  }
  return points;
}
using Curve = std::multimap<std::int64_t, float>;

HParamsPluginData hparams_in(const fs::path& folder, const std::string& tag) {
  const auto values = values_in(folder, "_hparams_/" + tag);
  REQUIRE(values.size() == 1);
  CHECK(values[0].metadata().plugin_data().plugin_name() == "hparams");
  HParamsPluginData data;
  REQUIRE(data.ParseFromString(values[0].metadata().plugin_data().content()));
  return data;
}

}  // namespace

TEST_CASE("rows are scalars of their step, with their epoch") {
  const TemporaryFolder root;
  TensorBoardLogger logger;
  start(logger, run_in(root.path()));
  CHECK(logger.log_dir() == root / "logs/version_0");
  CHECK(logger.version() == "version_0");
  logger.log_metrics(row_of(9, {{"loss", 0.1}, {"accuracy", 0.75}}, 2));
  logger.log_metrics(row_of(19, {{"loss", 1e-30}}, 3));
  logger.save();
  const fs::path folder = logger.log_dir();
  CHECK(curve(folder, "loss") == Curve{{9, 0.1F}, {19, 1e-30F}});
  CHECK(curve(folder, "accuracy") == Curve{{9, 0.75F}});
  CHECK(curve(folder, "epoch") == Curve{{9, 2}, {19, 3}});
}

TEST_CASE("images, histograms, texts and tables are what their plug-ins read") {
  const TemporaryFolder root;
  TensorBoardLogger logger;
  start(logger, run_in(root.path()));
  const fs::path folder = logger.log_dir();
  CHECK(logger.log_item({.name = "samples", .step = 4, .content = LoggedImage{"bytes", 3, 2, 1}}));
  CHECK(logger.log_item(
      {.name = "weight",
       .step = 5,
       .content = LoggedHistogram{{0.5, 2}, {1, 2}, /*min=*/-1, /*max=*/2, /*sum=*/2.5, /*sum_squares=*/6, 3}}));
  CHECK(logger.log_item({.name = "note", .step = 6, .content = LoggedText{"# A text"}}));
  CHECK(logger.log_item(
      {.name = "errors", .step = 7, .content = Table{{"what", "n"}, {{"a|b\nc", 3}, {0.5, nullptr}, {true, 1}}}}));
  logger.save();

  const auto image = values_in(folder, "samples").at(0).image();
  CHECK(image.encoded_image_string() == "bytes");
  CHECK((image.width() == 3 && image.height() == 2 && image.colorspace() == 1));
  const auto histogram = values_in(folder, "weight").at(0).histo();
  CHECK((histogram.min() == -1 && histogram.max() == 2 && histogram.num() == 3));
  CHECK((histogram.sum() == 2.5 && histogram.sum_squares() == 6));
  CHECK(std::vector(histogram.bucket_limit().begin(), histogram.bucket_limit().end()) == std::vector{0.5, 2.0});
  CHECK(std::vector(histogram.bucket().begin(), histogram.bucket().end()) == std::vector{1.0, 2.0});
  const auto text = values_in(folder, "note/text_summary").at(0);
  CHECK(text.metadata().plugin_data().plugin_name() == "text");
  CHECK(text.tensor().string_val(0) == "# A text");
  CHECK(values_in(folder, "errors/text_summary").at(0).tensor().string_val(0) ==
        "| what | n |\n| --- | --- |\n| a\\|b c | 3 |\n| 0.5 |  |\n| true | 1 |\n");
}

TEST_CASE("a file, which TensorBoard does not show, is copied to media") {
  const TemporaryFolder root;
  std::ofstream(root / "notes.txt") << "text";
  TensorBoardLogger logger;
  start(logger, run_in(root.path()));
  CHECK(logger.log_item({.name = "notes", .step = 1, .content = LoggedFile{root / "notes.txt"}}));
  CHECK(read_text(logger.log_dir() / "media/files/notes/000001_notes.txt") == "text");
}

TEST_CASE("hyper-parameters are written at the start, metrics to compare by and the status at the end") {
  const TemporaryFolder root;
  TensorBoardLogger logger;
  start(logger, run_in(root.path()));
  logger.log_hyperparams(Value::Map{
      {"model", Value::Map{{"lr", 0.1}, {"layers", Value::List{1, 2}}, {"name", "small"}, {"none", nullptr}, {"bias", true}}}});
  logger.log_metrics(row_of(1, {{"val_loss", 0.5}}));
  logger.finalize("success");
  const fs::path folder = logger.log_dir();

  const auto start_info = hparams_in(folder, "session_start_info").session_start_info();
  CHECK(start_info.hparams().size() == 4);
  CHECK(start_info.hparams().at("model.lr").number_value() == 0.1);
  CHECK(start_info.hparams().at("model.layers").string_value() == "[1,2]");
  CHECK(start_info.hparams().at("model.name").string_value() == "small");
  CHECK(start_info.hparams().at("model.bias").bool_value());
  const auto experiment = hparams_in(folder, "experiment").experiment();
  CHECK(experiment.hparam_infos_size() == 4);
  REQUIRE(experiment.metric_infos_size() == 1);
  CHECK(experiment.metric_infos(0).name().tag() == "val_loss");
  CHECK(hparams_in(folder, "session_end_info").session_end_info().status() == tensorboard::SessionEndInfo::STATUS_SUCCESS);
}

TEST_CASE("it shares the folder of a CSVLogger before it, but not that of another TensorBoardLogger") {
  const TemporaryFolder root;
  RunInfo run = run_in(root.path());
  CsvLogger csv;
  start(csv, run);
  run.open_folders.push_back(csv.log_dir());
  TensorBoardLogger first;
  start(first, run);
  CHECK(first.log_dir() == csv.log_dir());
  run.open_folders.push_back(first.log_dir());
  TensorBoardLogger second;
  start(second, run);
  CHECK(second.log_dir() == root / "logs/version_1");
  TensorBoardLogger elsewhere({.name = "boards"});
  start(elsewhere, run);
  CHECK(elsewhere.log_dir() == root / "boards/version_0");
}

TEST_CASE("other ranks' items and unreduced values are separate runs") {
  const TemporaryFolder root;
  TensorBoardLogger zero({.per_rank = true, .every_n_steps = 2});
  TensorBoardLogger one({.per_rank = false});
  const std::string token = zero.open(run_in(root.path()));
  zero.attach(run_in(root.path()), token);
  one.attach(run_in(root.path(), 1), token);
  CHECK(zero.wants_rank_metrics());
  CHECK_FALSE(one.wants_rank_metrics());
  for (std::int64_t step = 0; step < 4; ++step)
    zero.log_rank_metrics(row_of(step, {{"loss", 1.0 + static_cast<double>(step)}}));
  CHECK_FALSE(fs::exists(fs::path(token) / "rank_1"));
  one.log_item({.name = "note", .step = 3, .rank = 1, .content = LoggedText{"of rank 1"}});
  zero.save();
  one.save();
  CHECK(curve(fs::path(token) / "rank_0", "loss") == Curve{{1, 2}, {3, 4}});
  CHECK(curve(token, "loss").empty());
  CHECK(values_in(fs::path(token) / "rank_1", "note/text_summary").at(0).tensor().string_val(0) == "of rank 1");
}

TEST_CASE("a run that resumes has each point once, in the same folder or another; one that does not has its own points alone") {
  const TemporaryFolder root;
  logged_before(root, 5);
  const auto [version, resumes] = GENERATE(table<Value, bool>({{0, true}, {Value(), true}, {0, false}}));
  TensorBoardLogger logger({.version = version});
  start(logger, resumes ? resumed_at(root, 3) : run_in(root.path()));
  logger.log_metrics(row_of(resumes ? 3 : 0, {{"loss", 2.0}}));
  logger.finalize("success");
  CHECK(logger.log_dir() == root / (version.is_null() ? "logs/version_1" : "logs/version_0"));
  CHECK(curve(logger.log_dir(), "loss") == (resumes ? Curve{{0, 1}, {1, 1}, {2, 1}, {3, 2}} : Curve{{0, 2}}));
  if (version.is_null()) CHECK(curve(root / "logs/version_0", "loss").size() == 5);
}

TEST_CASE("of rows at the step of the checkpoint, those that it knows stay") {
  const TemporaryFolder root;
  RowCounts known;
  {
    TensorBoardLogger logger({.per_rank = true, .every_n_steps = 1});
    start(logger, run_in(root.path()));
    CHECK(logger.rows_written().rows == 0);
    logger.log_metrics(row_of(4, {{"val_loss", 1.0}}));
    logger.log_rank_metrics(row_of(4, {{"val_loss", 3.0}}));
    logger.log_item({.name = "note", .step = 4, .content = LoggedText{"before"}});
    known = logger.rows_written();
    logger.log_metrics(row_of(4, {{"train_loss", 2.0}}));  // the epoch's end, after the checkpoint
    logger.log_rank_metrics(row_of(4, {{"train_loss", 2.0}}));
    logger.log_item({.name = "note", .step = 5, .content = LoggedText{"after"}});
    logger.save();
  }
  RunInfo run = resumed_at(root, 5);
  run.resume_rows = known;
  const auto check = [&](const fs::path& folder) {
    CHECK(curve(folder, "val_loss") == Curve{{4, 1}});
    CHECK(curve(folder, "train_loss") == Curve{{4, 2.5}});
    CHECK(curve(folder / "rank_0", "val_loss") == Curve{{4, 3}});
    CHECK(curve(folder / "rank_0", "train_loss").empty());
    CHECK(values_in(folder, "note/text_summary").size() == 1);
  };
  for (const Value& version : {Value(), Value(0)}) {
    TensorBoardLogger logger({.version = version, .per_rank = true});
    start(logger, run);
    CHECK(logger.rows_written().rows == known.rows);
    CHECK(logger.rows_written().rank_rows == known.rank_rows);
    logger.log_metrics(row_of(4, {{"train_loss", 2.5}}));
    logger.save();
    CHECK(logger.rows_written().rows == known.rows + 1);
    check(logger.log_dir());
  }
}

TEST_CASE("a file that a kill has cut short is continued after its last whole event") {
  const TemporaryFolder root;
  const fs::path file = logged_before(root, 3);
  fs::resize_file(file, fs::file_size(file) - 3);
  TensorBoardLogger logger({.version = 0});
  start(logger, resumed_at(root, 1));
  logger.save();
  CHECK(curve(root / "logs/version_0", "loss") == Curve{{0, 1}});
}

TEST_CASE("a FIFO or a device among earlier event files is refused, and not waited for") {
  const TemporaryFolder root;
  logged_before(root, 1);
  const fs::path odd = root / "logs/version_0/events.out.tfevents.0";
  if (GENERATE(true, false)) {
    REQUIRE(mkfifo(odd.c_str(), 0600) == 0);
  } else {
    fs::create_symlink("/dev/zero", odd);
  }
  TensorBoardLogger logger;
  CHECK_THROWS_WITH(start(logger, resumed_at(root, 1)), Catch::Contains(odd.string()) && Catch::Contains("not a regular file"));
}

TEST_CASE("a start that failed leaves no version behind") {
  const TemporaryFolder root;
  TensorBoardLogger logger;
  start(logger, run_in(root.path()));
  CHECK(fs::exists(root / "logs/version_0"));
  logger.finalize("failed");
  CHECK_FALSE(fs::exists(root / "logs/version_0"));
  start(logger, run_in(root.path()));
  logger.log_metrics(row_of(0, {{"loss", 1.0}}));
  logger.finalize("failed");
  CHECK(hparams_in(root / "logs/version_0", "session_end_info").session_end_info().status() ==
        tensorboard::SessionEndInfo::STATUS_FAILURE);
}
