// metrics.csv as other programs read it, at any moment of a run and after the run was killed. A last line without a line end is
// being written, or was when the run was killed, and readers pass over it.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "levin/loggers/metrics_file.h"
#include "loggers/logger_run.h"
#include "support/program.h"

using levin::MetricRow;
using levin::MetricsFile;
using levin::test::CsvTable;
using levin::test::is_rectangular;
using levin::test::read_text;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

// A row as runs have them: numbers of all lengths, a new name now and then, sometimes nothing but a NaN.
MetricRow row_of(std::int64_t step, std::int64_t rows_per_name, std::mt19937& random) {
  MetricRow row = levin::test::row_of(step, {{"x", static_cast<double>(step)}}, step / 100);
  if (random() % 4 != 0) row.values["loss"] = static_cast<double>(random()) / 3e9;
  if (random() % 50 == 0) row.values["loss"] = std::nan("");
  row.values["name_" + std::to_string(step / rows_per_name)] = 1.0 / static_cast<double>(1 + random() % 1000);
  return row;
}

// A process that writes rows until it is killed, or `rows` of them, and tells of each flush by a byte in a pipe.
class Writer {
 public:
  Writer(const fs::path& path, std::int64_t rows, std::int64_t rows_per_name, std::int64_t flush_every, unsigned seed) {
    REQUIRE(pipe(flushed_) == 0);
    fcntl(flushed_[1], F_SETPIPE_SZ, 4096);  // keeps it from running far ahead
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ != 0) {
      close(flushed_[1]);
      return;
    }
    close(flushed_[0]);
    std::mt19937 random(seed);
    // Every other one rewrites the file for new columns only when it is flushed.
    MetricsFile file(path, flush_every, seed % 2 == 0 ? 0 : 0.02);
    for (std::int64_t step = 0; step < rows; ++step) {
      file.append(row_of(step, rows_per_name, random));
      if ((step + 1) % flush_every == 0) file.flush();
      if ((step + 1) % flush_every == 0 && write(flushed_[1], "f", 1) != 1) _exit(1);
    }
    file.flush();
    _exit(0);
  }
  ~Writer() {
    kill(process_, SIGKILL);
    close(flushed_[0]);
    waitpid(process_, nullptr, 0);
  }

  /// Waits for the next flush; false when the process has ended.
  bool next_flush() const {
    char byte = 0;
    return read(flushed_[0], &byte, 1) == 1;
  }
  /// Kills it, and gives how many flushes are still to be counted.
  std::size_t end() const {
    kill(process_, SIGKILL);
    std::size_t more = 0;
    while (next_flush()) ++more;
    return more;
  }

 private:
  int flushed_[2] = {-1, -1};
  pid_t process_ = -1;
};

std::string whole_lines(const fs::path& path) {
  const std::string text = read_text(path);
  return text.substr(0, text.rfind('\n') + 1);
}

void check_rows(const fs::path& path, std::size_t at_least, std::size_t at_most) {
  const CsvTable table = CsvTable::read(path);
  REQUIRE(table.size() >= at_least);
  REQUIRE(table.size() <= at_most);
  const auto x = table.values("x");
  REQUIRE(x.size() == table.size());
  for (std::size_t row = 0; row < x.size(); ++row) REQUIRE(x[row] == static_cast<double>(row));
}

}  // namespace

TEST_CASE("a reader sees whole rows, with as many cells in each, at every moment while rows and columns are added") {
  const TemporaryFolder folder;
  constexpr std::int64_t kRows = 800;  // reading all of it after each flush takes time with its square
  for (unsigned seed = 0; seed < 6; ++seed) {
    const fs::path path = folder / ("metrics_" + std::to_string(seed) + ".csv");
    const std::int64_t flush_every = seed < 2 ? 1 : seed < 4 ? 7 : 300;
    const Writer writer(path, kRows, 40, flush_every, seed);
    std::size_t rows = 0;
    std::size_t reads = 0;
    while (writer.next_flush()) {
      const std::string text = whole_lines(path);
      INFO("seed " << seed << ", read " << reads << ", which ends in "
                   << text.substr(text.size() - std::min<std::size_t>(text.size(), 80)));
      REQUIRE(is_rectangular(text));
      const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      REQUIRE(lines >= rows);  // what was there stays
      rows = lines;
      ++reads;
    }
    CHECK(reads == static_cast<std::size_t>(kRows / flush_every));
    MetricsFile file(path, 1);
    file.start_from(path, {.end_step = kRows});
    check_rows(path, kRows, kRows);
  }
}

TEST_CASE("a process killed at any instant leaves a file of whole rows, all that it had flushed among them") {
  const TemporaryFolder folder;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const fs::path path = folder / ("metrics_" + std::to_string(seed) + ".csv");
    std::mt19937 random(seed);
    const std::int64_t flush_every = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 10 : 1000;
    const Writer writer(path, 1'000'000, 60, flush_every, seed);
    const std::size_t until = 1 + random() % (1 + 2000 / static_cast<std::size_t>(flush_every));
    std::size_t flushes = 0;
    while (flushes < until && writer.next_flush()) ++flushes;
    for (unsigned turns = random() % 100'000; turns > 0; --turns) asm volatile("");  // somewhere within the next flush
    flushes += writer.end();
    INFO("seed " << seed << ", " << flushes << " flushes of " << flush_every << " rows");
    REQUIRE(is_rectangular(whole_lines(path)));
    const std::size_t flushed = flushes * static_cast<std::size_t>(flush_every);
    check_rows(path, flushed, flushed + static_cast<std::size_t>(flush_every));
    // The next run has all of it.
    MetricsFile file(path, 1);
    file.start_from(path, {.end_step = 1'000'000});
    file.tidy();
    check_rows(path, flushed, flushed + static_cast<std::size_t>(flush_every));
  }
}

TEST_CASE("Python's csv.reader reads the file while it is written, and once more when its writer was killed") {
  const TemporaryFolder folder;
  const fs::path path = folder / "metrics.csv";
  std::ofstream(folder / "read.py") << R"(import csv, os, sys
for _ in range(int(sys.argv[2])):
    with open(sys.argv[1], newline="") as file:
        lines = [line for line in file if line.endswith("\n")]
    header, *rows = csv.reader(lines)
    assert len(set(header)) == len(header) and "" not in header, header
    for number, row in enumerate(rows):
        assert len(row) == len(header), (number, row)
        cells = dict(zip(header, row))
        assert int(cells["step"]) == number and float(cells["x"]) == number, (number, row)
        [float(cell) for cell in row if cell]
print(len(rows))
)";
  const auto read = [&](int times) {
    return levin::test::run({{"python3", (folder / "read.py").string(), path.string(), std::to_string(times)}});
  };
  {
    const Writer writer(path, 5'000, 250, 3, 1);
    std::size_t flushes = 0;
    while (flushes < 50 && writer.next_flush()) ++flushes;
    std::thread drain([&] {
      while (writer.next_flush()) {
      }
    });
    const auto outcome = read(8);
    writer.end();
    drain.join();
    INFO(outcome.text());
    CHECK(outcome.ok());
  }
  const auto outcome = read(1);
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK(std::stoi(outcome.out) >= 100);
}
