#include <catch2/catch.hpp>
#include <filesystem>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Folders of runs that earlier versions have written: config.yaml, epoch_1.ckpt, and in metrics.csv what that version logged
/// when it went on from there (tests/releases/README.md).
std::vector<fs::path> earlier_runs() {
  std::vector<fs::path> runs;
  for (const auto& release : fs::directory_iterator(LEVIN_SOURCE_DIR "/tests/releases")) {
    if (!release.is_directory()) continue;
    for (const auto& run : fs::directory_iterator(release)) runs.push_back(run);
  }
  return runs;
}

TEST_CASE("what an earlier version has saved trains on, with its configuration, to the numbers that it came to itself") {
  const std::vector<fs::path> runs = earlier_runs();
  REQUIRE(runs.size() >= 2);
  for (const fs::path& run : runs) {
    INFO(run.string());
    const TemporaryFolder folder;
    const Outcome outcome = levin({"fit", "--config", run / "config.yaml", "--ckpt_path", run / "epoch_1.ckpt",
                                   "--trainer.max_epochs=4", "--trainer.default_root_dir=" + folder.path().string()});
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    const CsvTable then = CsvTable::read(run / "metrics.csv");
    const CsvTable now = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
    for (const std::string& column : then.columns()) {
      INFO(column);
      const std::vector<double> expected = then.values(column);
      const std::vector<double> values = now.values(column);
      REQUIRE(values.size() == expected.size());
      // Processors add up in their own order.
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(values[i] == Approx(expected[i]).epsilon(1e-2).margin(0.01));
    }
  }
}

TEST_CASE("an earlier version's configuration is checked, and its checkpoint inspected, without a complaint") {
  for (const fs::path& run : earlier_runs()) {
    INFO(run.string());
    const Outcome printed = levin({"fit", "--config", run / "config.yaml", "--print_config"});
    INFO(printed.text());
    CHECK(printed.ok());
    const Outcome inspected = levin({"inspect", run / "epoch_1.ckpt"});
    INFO(inspected.text());
    CHECK(inspected.ok());
    CHECK((printed.err + inspected.err).find("warning") == std::string::npos);
  }
}

}  // namespace
}  // namespace levin::test
