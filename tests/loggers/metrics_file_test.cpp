#include "levin/loggers/metrics_file.h"

#include <rapidcheck.h>
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "loggers/logger_run.h"

using levin::MetricMap;
using levin::MetricsFile;
using levin::test::CsvTable;
using levin::test::is_rectangular;
using levin::test::read_text;
using levin::test::row_of;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

// Rewrites for new columns only when it is flushed.
constexpr double kNoTime = 0;

// Makes files larger than `bytes` impossible for the length of a scope: what a full disk is to a writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a tidied file is rectangular, its columns are sorted, and missing cells are empty") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 100);
  file.append(row_of(0, {{"train_loss", 0.5}}));
  file.append(row_of(1, {{"train_loss", 0.25}, {"a,b", 1.0}}));
  file.append(row_of(1, {{"val_loss", 0.125}, {"Upper", -1e-5}}, 3));
  file.tidy();
  CHECK(read_text(folder / "metrics.csv") ==
        "Upper,\"a,b\",epoch,step,train_loss,val_loss\n"
        ",,0,0,0.5,\n"
        ",1.0,0,1,0.25,\n"
        "-1e-05,,3,1,,0.125\n");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("while the run is on, columns stand in the order of their first values and rows in that of time") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 100);
  CHECK_FALSE(fs::exists(file.path()));
  file.append(row_of(0, {{"b", 1.0}}));
  file.flush();
  CHECK(read_text(file.path()) == "epoch,step,b\n0,0,1.0\n");
  file.append(row_of(1, {{"b", std::nan("")}, {"a", 0.5}}));
  file.flush();
  CHECK(read_text(file.path()) == "epoch,step,b,a\n0,0,1.0,\n0,1,NaN,0.5\n");
  file.append(row_of(2, {{"a", 0.25}}));
  file.flush();
  CHECK(read_text(file.path()) == "epoch,step,b,a\n0,0,1.0,\n0,1,NaN,0.5\n0,2,,0.25\n");
}

TEST_CASE("rows reach the file after so many steps; a metric called step or epoch replaces the row's") {
  const TemporaryFolder folder;
  for (const std::int64_t every : {1, 10}) {
    MetricsFile file(folder / (std::to_string(every) + ".csv"), every);
    for (std::int64_t step = 0; step < 20; ++step) {
      file.append(row_of(step, {{"step", 0.5}, {"epoch", 7.0}}));
      const std::int64_t rows = (step + 1) / every * every;
      CHECK((rows == 0 ? !fs::exists(file.path()) : static_cast<std::int64_t>(CsvTable::read(file.path()).size()) == rows));
    }
    CHECK(read_text(file.path()).starts_with("epoch,step\n7.0,0.5\n7.0,0.5\n"));
  }
}

TEST_CASE("a new column in each of many rows") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1, GENERATE(0.02, kNoTime));
  constexpr std::int64_t kRows = 1500;
  for (std::int64_t step = 0; step < kRows; ++step) {
    file.append(row_of(step, {{"metric_number_" + std::to_string(step), static_cast<double>(step)}}));
  }
  for (int pass = 0; pass < 2; ++pass) {
    file.tidy();
    const CsvTable table = CsvTable::read(file.path());
    REQUIRE(table.size() == kRows);
    for (const std::size_t step : {0UL, 1UL, 140UL, 700UL, 1499UL}) {
      CHECK(table.values("metric_number_" + std::to_string(step)) == std::vector{static_cast<double>(step)});
      CHECK(table.cell(step, "metric_number_" + std::to_string(step)) == std::to_string(step) + ".0");
    }
  }
}

TEST_CASE("whatever rows are appended, flushed and tidied, each value stands in its row and column") {
  REQUIRE(rc::check([] {
    // Few, since each waits for the disk now and then.
    const auto rows = *rc::gen::resize(25, rc::gen::arbitrary<std::vector<std::map<std::string, std::int16_t>>>());
    const auto actions = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    const TemporaryFolder folder;
    const double share = actions.size() % 2 == 0 ? 0.02 : kNoTime;
    auto file = std::make_unique<MetricsFile>(folder / "metrics.csv", 3, share);
    std::set<std::string> names{"epoch", "step"};
    for (std::size_t index = 0; index < rows.size(); ++index) {
      MetricMap values(rows[index].begin(), rows[index].end());
      values.erase("epoch");
      values.erase("step");
      for (const auto& [name, value] : values) names.insert(name);
      file->append(row_of(static_cast<std::int64_t>(index), std::move(values)));
      const int action = index < actions.size() ? actions[index] % 24 : 7;
      if (action == 0) file->flush();
      if (action == 1) file->tidy();
      if (action == 2) {
        file->flush();
        file = std::make_unique<MetricsFile>(folder / "metrics.csv", 3, share);
      }
      if (fs::exists(file->path())) RC_ASSERT(is_rectangular(read_text(file->path())));
    }
    file->flush();
    if (rows.empty()) RC_ASSERT(!fs::exists(file->path()));
    if (rows.empty()) return;
    // Another object continues the file.
    file = std::make_unique<MetricsFile>(folder / "metrics.csv", 3, share);
    file->append(row_of(static_cast<std::int64_t>(rows.size()), {}));
    file->tidy();
    RC_ASSERT(is_rectangular(read_text(file->path())));
    const CsvTable table = CsvTable::read(file->path());
    RC_ASSERT(table.columns() == std::vector<std::string>(names.begin(), names.end()));
    RC_ASSERT(table.size() == rows.size() + 1);
    for (const std::string& name : names) {
      for (std::size_t index = 0; index < rows.size(); ++index) {
        const auto found = rows[index].find(name);
        const std::string value = found == rows[index].end() ? "" : std::to_string(found->second) + ".0";
        if (name == "step") RC_ASSERT(table.cell(index, name) == std::to_string(index));
        if (name != "step" && name != "epoch") RC_ASSERT(table.cell(index, name) == value);
      }
    }
  }));
}

TEST_CASE("resuming takes the rows before the step, of this file or another, drops the others and a half row, and continues") {
  const TemporaryFolder folder;
  const std::string before = "epoch,step,loss\r\r\r\r\n0,0,1\n0,1,0.5\n0,2,0.25\n0,9e99,7\n0,,8\n0,2,0.1";
  std::ofstream(folder / "old.csv") << before;
  std::ofstream(folder / "same.csv") << before;
  for (const char* name : {"same.csv", "new.csv"}) {
    MetricsFile file(folder / name, 100);
    file.start_from(folder / (name == std::string("new.csv") ? "old.csv" : name), {.end_step = 2});
    CHECK(CsvTable::read(file.path()).rows() ==
          std::vector<std::vector<std::string>>{{"0", "0", "1"}, {"0", "1", "0.5"}, {"0", "", "8"}});
    file.append(row_of(2, {{"loss", 0.3}, {"new", 1.0}}));
    file.tidy();
    CHECK(read_text(file.path()) == "epoch,loss,new,step\n0,1,,0\n0,0.5,,1\n0,8,,\n0,0.3,1.0,2\n");
  }
  CHECK(read_text(folder / "old.csv") == before);
}

TEST_CASE("a full disk is an error that names the file; whole rows stay, and the rest is written when there is room again") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  {
    const FileSizeLimit limit(13 + 8 + 8 + 5);
    file.append(row_of(1, {{"x", 2.0}}));
    CHECK_THROWS_WITH(file.append(row_of(2, {{"x", 0.333333333333}})),
                      "cannot write " + file.path().string() + ": File too large");
    CHECK_THROWS_AS(file.flush(), levin::IoError);
    CHECK(read_text(file.path()) == "epoch,step,x\n0,0,1.0\n0,1,2.0\n");
    CHECK_THROWS_AS(file.tidy(), levin::IoError);
    CHECK(read_text(file.path()) == "epoch,step,x\n0,0,1.0\n0,1,2.0\n");
  }
  file.flush();
  const std::string whole = read_text(file.path());
  {
    const FileSizeLimit limit(5);
    CHECK_THROWS_AS(file.tidy(), levin::IoError);
    CHECK(read_text(file.path()) == whole);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  }
  file.append(row_of(3, {{"x", 2.0}}));
  file.tidy();
  CHECK(read_text(file.path()) == "epoch,step,x\n0,0,1.0\n0,1,2.0\n0,2,0.333333333333\n0,3,2.0\n");
}

TEST_CASE("what another program adds to the file while it is written to stays, and rows follow it") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  std::ofstream(file.path(), std::ios::app) << "0,0,7\n";
  file.append(row_of(1, {{"x", 2.0}}));
  CHECK(read_text(file.path()) == "epoch,step,x\n0,0,1.0\n0,0,7\n0,1,2.0\n");
}

TEST_CASE("a file that is removed while it is written to is an error; one that another program has replaced is continued") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  MetricsFile file(folder / "run/metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  std::ofstream(folder / "edited") << "epoch,step,note\n0,0,mine\n";
  fs::rename(folder / "edited", file.path());
  file.append(row_of(1, {{"x", 2.0}}));
  CHECK(read_text(file.path()) == "epoch,step,x,note\n0,0,,mine\n0,1,2.0,\n");
  fs::remove_all(folder / "run");
  CHECK_THROWS_WITH(file.append(row_of(2, {{"x", 2.0}})), Catch::Contains(file.path().string() + " is gone"));
  CHECK_THROWS_WITH(file.tidy(), Catch::Contains(" is gone"));
  MetricsFile late(folder / "run/late.csv", 1);
  CHECK_THROWS_WITH(late.append(row_of(0, {})), Catch::Contains(late.path().string()) && Catch::Contains("No such file"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("rows of a new column, and those behind them, wait for time to rewrite the file, or for a flush") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1, kNoTime);
  for (int step = 0; step < 3; ++step) file.append(row_of(step, {{"x", 1.0}}));
  const std::string before = read_text(file.path());
  CHECK(before == "epoch,step,x\n0,0,1.0\n0,1,1.0\n0,2,1.0\n");
  file.append(row_of(3, {{"late", 0.5}}));
  file.append(row_of(4, {{"x", 2.0}}));
  CHECK(read_text(file.path()) == before);
  CHECK(file.rows() == 5);
  file.flush();
  const std::string all = "epoch,step,x,late\n0,0,1.0,\n0,1,1.0,\n0,2,1.0,\n0,3,,0.5\n0,4,2.0,\n";
  CHECK(read_text(file.path()) == all);
  file.append(row_of(5, {{"x", 3.0}}));
  CHECK(read_text(file.path()) == all + "0,5,3.0,\n");
  file.append(row_of(6, {{"later", 1.0}}));
  file.tidy();
  CHECK(read_text(file.path()) ==
        "epoch,late,later,step,x\n0,,,0,1.0\n0,,,1,1.0\n0,,,2,1.0\n0,0.5,,3,\n0,,,4,2.0\n0,,,5,3.0\n0,,1.0,6,\n");

  // With time, new columns come with their rows.
  MetricsFile unlimited(folder / "other.csv", 1, 1e9);
  for (int step = 0; step < 3; ++step) unlimited.append(row_of(step, {{"x" + std::to_string(step), 1.0}}));
  CHECK(read_text(unlimited.path()) == "epoch,step,x0,x1,x2\n0,0,1.0,,\n0,1,,1.0,\n0,2,,,1.0\n");
}

TEST_CASE("resuming takes as many rows as were counted, whatever their steps") {
  for (const std::int64_t rows : {2, 4, 5}) {
    const TemporaryFolder folder;
    {
      MetricsFile file(folder / "metrics.csv", 1);
      for (const std::int64_t step : {7, 7, 0}) file.append(row_of(step, {{"x", 1.0}}));
      for (const std::int64_t step : {7, 1}) file.append(row_of(step, {{"late", 0.5}}));
      file.flush();
      CHECK(file.rows() == 5);
    }
    MetricsFile resumed(folder / "metrics.csv", 1);
    resumed.start_from(folder / "metrics.csv", {.end_step = 0, .rows = rows});
    CHECK(resumed.rows() == rows);
    const std::vector<std::string> lines = {"0,7,1.0,\n", "0,7,1.0,\n", "0,0,1.0,\n", "0,7,,0.5\n", "0,1,,0.5\n"};
    std::string expected = "epoch,step,x,late\n";
    for (std::int64_t row = 0; row < rows; ++row) expected += lines[static_cast<std::size_t>(row)];
    CHECK(read_text(resumed.path()) == expected);
  }
}

TEST_CASE("nothing is written through links that lie in the folder") {
  const TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  fs::create_directory(folder / "run");
  for (const char* name : {"metrics.csv.tmp", "metrics.csv"}) fs::create_symlink(folder / "victim", folder / "run" / name);
  MetricsFile file(folder / "run/metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  file.append(row_of(1, {{"x", 1.0}}));
  file.append(row_of(2, {{"late", 1.0}}));
  file.tidy();
  CHECK(read_text(folder / "victim") == "precious");
  CHECK(fs::is_regular_file(fs::symlink_status(file.path())));
}
