#include "levin/loggers/metrics_file.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "levin/core/error.h"
#include "levin/core/logger.h"
#include "loggers/csv_table.h"
#include "support/temporary_folder.h"

using levin::MetricMap;
using levin::MetricRow;
using levin::MetricsFile;
using levin::test::content;
using levin::test::CsvTable;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

MetricRow row_of(std::int64_t step, MetricMap values, std::int64_t epoch = 0) {
  MetricRow row;
  row.epoch = epoch;
  row.step = step;
  row.values = std::move(values);
  return row;
}

// The file as it is at one instant: what is appended while it is read does not count.
CsvTable snapshot(const fs::path& path, const fs::path& copy) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  std::string text(static_cast<std::size_t>(stream.tellg()), '\0');
  stream.seekg(0).read(text.data(), static_cast<std::streamsize>(text.size()));
  std::ofstream(copy, std::ios::binary) << text;
  return CsvTable(copy);
}

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
  CHECK(content(folder / "metrics.csv") ==
        "Upper,\"a,b\",epoch,step,train_loss,val_loss\n"
        ",,0,0,0.5,\n"
        ",1,0,1,0.25,\n"
        "-1e-05,,3,1,,0.125\n");
  CHECK_FALSE(fs::exists(folder / "metrics.csv.tmp"));
}

TEST_CASE("while the run is on, the file has spare room in its header and rows in the order of time") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 100);
  CHECK_FALSE(fs::exists(file.path()));
  file.append(row_of(0, {{"b", 1.0}}));
  file.flush();
  file.append(row_of(1, {{"a", 2.0}}));
  file.flush();
  const std::string text = content(file.path());
  CHECK(text.find("epoch,step,b,a\r\r\r") == 0);
  CHECK(text.substr(4095) == "\n0,0,1\n0,1,,2\n");
}

TEST_CASE("rows reach the file after so many steps") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  for (std::int64_t step = 0; step < 3; ++step) {
    file.append(row_of(step, {{"x", 1.0}}));
    CHECK(CsvTable(file.path()).rows.size() == static_cast<std::size_t>(step + 1));
  }
  MetricsFile other(folder / "other.csv", 10);
  for (std::int64_t step = 0; step < 10; ++step) other.append(row_of(step, {{"x", 1.0}}));
  CHECK(CsvTable(other.path()).rows.size() == 10);
}

TEST_CASE("a metric called step or epoch stands in place of the row's own") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  file.append(row_of(4, {{"step", 0.5}, {"epoch", 7.0}}));
  file.tidy();
  CHECK(content(file.path()) == "epoch,step\n7,0.5\n");
}

TEST_CASE("a tidied file is continued, with new columns too") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 100);
  file.append(row_of(0, {{"b", 1.0}}));
  file.tidy();
  file.tidy();
  file.append(row_of(1, {{"b", 2.0}, {"a", 3.0}}));
  file.tidy();
  const std::string expected = "a,b,epoch,step\n,1,0,0\n3,2,0,1\n";
  CHECK(content(file.path()) == expected);

  MetricsFile later(folder / "metrics.csv", 100);
  later.append(row_of(2, {{"c", 4.0}}));
  later.tidy();
  CHECK(content(file.path()) == "a,b,c,epoch,step\n,1,,0,0\n3,2,,0,1\n,,4,0,2\n");
}

TEST_CASE("more columns than the header has room for") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  constexpr std::int64_t kRows = 1500;
  for (std::int64_t step = 0; step < kRows; ++step) {
    file.append(row_of(step, {{"metric_number_" + std::to_string(step), static_cast<double>(step)}}));
  }
  for (int pass = 0; pass < 2; ++pass) {
    const CsvTable table(file.path());
    REQUIRE(table.rows.size() == kRows);
    for (const std::int64_t step : {0, 1, 140, 700, 1499}) {
      const auto column = table.column("metric_number_" + std::to_string(step));
      for (std::int64_t row = 0; row < kRows; ++row) {
        REQUIRE(column[static_cast<std::size_t>(row)] == (row == step ? std::to_string(step) : ""));
      }
    }
    file.tidy();
  }
}

TEST_CASE("whatever rows are appended, flushed and tidied, each value stands in its row and column") {
  REQUIRE(rc::check([](const std::vector<std::map<std::string, std::int16_t>>& rows, const std::vector<std::uint8_t>& actions) {
    const TemporaryFolder folder;
    auto file = std::make_unique<MetricsFile>(folder / "metrics.csv", 3);
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
        file = std::make_unique<MetricsFile>(folder / "metrics.csv", 3);
      }
    }
    file->flush();
    if (rows.empty()) RC_ASSERT(!fs::exists(file->path()));
    if (rows.empty()) return;
    for (int pass = 0; pass < 2; ++pass) {
      const CsvTable table(file->path());
      RC_ASSERT(std::set<std::string>(table.header.begin(), table.header.end()) == names);
      RC_ASSERT(table.header.size() == names.size());
      RC_ASSERT(table.rows.size() == rows.size());
      for (const std::string& name : names) {
        const auto column = table.column(name);
        for (std::size_t index = 0; index < rows.size(); ++index) {
          const auto found = rows[index].find(name);
          const std::string value = found == rows[index].end() ? "" : std::to_string(found->second);
          if (name == "step") RC_ASSERT(column[index] == std::to_string(index));
          if (name != "step" && name != "epoch") RC_ASSERT(column[index] == value);
        }
      }
      file->append(row_of(0, {}));
      file->tidy();
      CsvTable tidy(file->path());
      RC_ASSERT(tidy.rows.size() == rows.size() + 1);
      RC_ASSERT(std::is_sorted(tidy.header.begin(), tidy.header.end()));
      return;
    }
  }));
}

TEST_CASE("resuming keeps the rows before the step, drops the others and a half row, and goes on") {
  const TemporaryFolder folder;
  const fs::path path = folder / "metrics.csv";
  std::ofstream(path) << "epoch,step,loss\r\r\r\r\n0,0,1\n0,1,0.5\n0,2,0.25\n0,9e99,7\n0,,8\n0,2,0.1";
  MetricsFile file(path, 100);
  file.start_from(path, 2);
  file.append(row_of(2, {{"loss", 0.3}, {"new", 1.0}}));
  file.tidy();
  CHECK(content(path) == "epoch,loss,new,step\n0,1,,0\n0,0.5,,1\n0,8,,\n0,0.3,1,2\n");
}

TEST_CASE("a file can start with the rows of another, which stays as it was") {
  const TemporaryFolder folder;
  const std::string before = "epoch,loss,step\n0,1,0\n1,0.5,1\n";
  std::ofstream(folder / "old.csv") << before;
  MetricsFile file(folder / "metrics.csv", 100);
  file.start_from(folder / "old.csv", 1);
  CHECK(CsvTable(file.path()).rows == std::vector<std::vector<std::string>>{{"0", "1", "0"}});
  file.tidy();
  CHECK(content(file.path()) == "epoch,loss,step\n0,1,0\n");
  CHECK(content(folder / "old.csv") == before);
}

TEST_CASE("a full disk is an error that names the file; whole rows stay, and the rest is written when there is room again") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  {
    const FileSizeLimit limit(4096 + 20);
    file.append(row_of(1, {{"x", 2.0}}));
    CHECK_THROWS_WITH(file.append(row_of(2, {{"x", 0.333333333333}})),
                      "cannot write " + file.path().string() + ": File too large");
    CHECK_THROWS_AS(file.flush(), levin::IoError);
    CHECK(content(file.path()).substr(4096) == "0,0,1\n0,1,2\n");
    CHECK_THROWS_AS(file.tidy(), levin::IoError);
    CHECK(content(file.path()).substr(4096) == "0,0,1\n0,1,2\n");
  }
  file.tidy();
  CHECK(content(file.path()) == "epoch,step,x\n0,0,1\n0,1,2\n0,2,0.333333333333\n");
}

TEST_CASE("tidying that fails leaves the file complete, and no rest of the attempt") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.csv", 1);
  file.append(row_of(0, {{"x", 1.0}}));
  const std::string before = content(file.path());
  {
    const FileSizeLimit limit(5);
    CHECK_THROWS_AS(file.tidy(), levin::IoError);
  }
  CHECK(content(file.path()) == before);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  file.append(row_of(1, {{"x", 2.0}}));
  file.tidy();
  CHECK(content(file.path()) == "epoch,step,x\n0,0,1\n0,1,2\n");
}

TEST_CASE("a folder that is gone is an error that names the file") {
  const TemporaryFolder folder;
  MetricsFile file(folder / "missing" / "metrics.csv", 1);
  CHECK_THROWS_WITH(file.append(row_of(0, {})),
                    Catch::Contains("cannot open " + (folder / "missing" / "metrics.csv").string()));
}

TEST_CASE("a process killed at any instant leaves a file that parses, with the rows it had flushed", "[kill]") {
  const TemporaryFolder folder;
  constexpr std::int64_t kColumns = 600;
  for (int round = 0; round < 12; ++round) {
    const fs::path path = folder / ("metrics_" + std::to_string(round) + ".csv");
    int progress[2];
    REQUIRE(pipe(progress) == 0);
    fcntl(progress[1], F_SETPIPE_SZ, 4096);  // keeps the writer from running far ahead
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(progress[0]);
      MetricsFile file(path, 1);
      for (std::int64_t step = 0;; ++step) {
        // A new column every third row: the header is patched, and now and then the whole file is rewritten.
        file.append(
            row_of(step, {{"x", static_cast<double>(step)}, {"column_" + std::to_string(std::min(step / 3, kColumns)), 1.0}}));
        if (write(progress[1], "r", 1) != 1) _exit(1);
      }
    }
    close(progress[1]);
    std::size_t flushed = 0;
    char byte = 0;
    for (; flushed < static_cast<std::size_t>(50 + 197 * round) && read(progress[0], &byte, 1) == 1; ++flushed) {
      if (flushed % 150 == 149) CHECK(snapshot(path, folder / "snapshot.csv").rows.size() > flushed);
    }
    kill(child, SIGKILL);
    while (read(progress[0], &byte, 1) == 1) ++flushed;
    close(progress[0]);
    REQUIRE(waitpid(child, nullptr, 0) == child);

    const CsvTable table(path);
    REQUIRE(table.rows.size() >= flushed);
    REQUIRE(table.rows.size() <= flushed + 1);
    const auto x = table.column("x");
    for (std::size_t row = 0; row < x.size(); ++row) REQUIRE(x[row] == std::to_string(row));
  }
}
