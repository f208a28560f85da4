#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

Outcome bench(const fs::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {levin_program(), "bench"});
  return run({.arguments = std::move(arguments), .folder = folder, .environment = {{"OMP_NUM_THREADS", "1"}}});
}

TEST_CASE("bench comm times each collective of each group for each size, and writes what it prints") {
  const TemporaryFolder folder;
  const Outcome outcome =
      bench(folder.path(), {"comm", "--trainer.devices=2", "--trainer.accelerator=cpu", "--max_bytes=70000", "--csv=comm.csv"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Contains("2 ranks") && Contains("group") && Contains("bus GB/s") && Contains("64 KB"));
  const CsvTable table = CsvTable::read(folder / "comm.csv");
  const std::vector<double> bytes = table.values("bytes");
  // 1 KB, 4 KB, 16 KB and 64 KB, in each of four ways as gradients travel, the same over gloo, and in one way as metrics do.
  REQUIRE(bytes.size() == 2 * 4 * 4 + 4);
  const std::vector<double> seconds = table.values("seconds");
  const std::vector<double> throughput = table.values("gb_per_second");
  const std::vector<double> bus = table.values("bus_gb_per_second");
  for (std::size_t row = 0; row < bytes.size(); ++row) {
    CAPTURE(row);
    CHECK(bytes[row] == 1024 * std::pow(4, row % 4));
    CHECK(seconds[row] > 0);
    CHECK(throughput[row] == Approx(bytes[row] / seconds[row] / 1e9));
    // Of two ranks: 2 (n - 1) / n of all_reduce and broadcast are 1, (n - 1) / n of what is gathered and scattered 1/2.
    const std::size_t collective = row / 4 % 4;
    const bool whole = row < 32 && collective % 2 == 0;
    CHECK(bus[row] == Approx(throughput[row] * (whole ? 1.0 : 0.5)));
  }
}

TEST_CASE("each rank of a profiled run writes what it did, and whom it waited for") {
  const TemporaryFolder folder;
  const Outcome outcome = digits("fit", folder.path(),
                                 {"--trainer.devices=2", "--trainer.accelerator=cpu", "--trainer.max_epochs=1",
                                  "--trainer.profiler=simple", "--trainer.limit_train_batches=5"});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.text(), Contains("Profile of rank 0") && Contains("[LightningModule]Digits.training_step"));
  std::string waits;
  for (const char* name : {"fit-profile-0.txt", "fit-profile-1.txt"}) {
    const std::string profile = read_text(version_folder(folder.path()) / name);
    CHECK_THAT(profile, Matches("[^]*\\[LightningModule\\]Digits.training_step *\\| *5 \\|[^]*Waits for other ranks[^]*"));
    const std::string table = profile.substr(profile.find("Waits for other ranks"));
    CHECK_THAT(table, Contains("0 | gradients |     5 |") && Contains("1 | gradients |     5 |") && Contains("| meetings"));
    if (waits.empty()) waits = table;
    CHECK(table == waits);  // all know all
  }
}

}  // namespace
}  // namespace levin::test
