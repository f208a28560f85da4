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

TEST_CASE("an earlier version's checkpoint does not resume, and says so; its weights are tested, and trained from") {
  const std::vector<fs::path> runs = earlier_runs();
  REQUIRE(runs.size() >= 2);
  for (const fs::path& run : runs) {
    INFO(run.string());
    const TemporaryFolder folder;
    const std::string config = run / "config.yaml", file = run / "epoch_1.ckpt";
    const std::string root = "--trainer.default_root_dir=" + folder.path().string();
    const Outcome resumed = levin({"fit", "--config", config, "--ckpt_path", file, root});
    CHECK(resumed.status == 2);
    CHECK_THAT(resumed.err, Catch::Contains("epoch_1.ckpt") && Catch::Contains("was written by levin 0.1.0") &&
                                Catch::Contains("give it as init_from instead"));
    const Outcome tested = levin({"test", "--config", config, "--ckpt_path", file, root, "--trainer.logger=false"});
    INFO(tested.text());
    CHECK(tested.ok());
    const Outcome trained = levin({"fit", "--config", config, "--init_from.path", file, "--trainer.max_epochs=1", root});
    INFO(trained.text());
    REQUIRE(trained.ok());
    // With its weights the first epoch is no worse than the one that it had come to.
    const CsvTable then = CsvTable::read(run / "metrics.csv");
    const CsvTable now = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
    REQUIRE_FALSE(now.values("val_loss").empty());
    CHECK(now.values("val_loss").back() < 1.5 * then.values("val_loss").front());
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
