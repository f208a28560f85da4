#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Trains for two epochs with those standard descriptors closed whose bit is set.
Outcome fit_with_closed(int closed, int ranks, const fs::path& folder) {
  std::string shell = "exec \"$@\"";
  for (const int descriptor : {0, 1, 2}) {
    if ((closed >> descriptor & 1) != 0) shell += " " + std::to_string(descriptor) + ">&-";
  }
  return run({.arguments = {"sh", "-c", shell, "sh", levin_program(), "fit", "--config", digits_config(),
                            "--trainer.max_epochs=2", "--trainer.devices=" + std::to_string(ranks), "--trainer.accelerator=cpu",
                            "--trainer.default_root_dir=" + folder.string()},
              .environment = {{"OMP_NUM_THREADS", "1"}}});
}

/// The files below a folder in which one of the lines that every run prints has ended up.
std::vector<std::string> files_with_messages(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_text(entry.path());
    for (const char* message : {"configuration: ", "Training stopped: ", "Epoch 1: "}) {
      if (text.find(message) != std::string::npos) found.push_back(entry.path().string() + ": " + message);
    }
  }
  return found;
}

TEST_CASE("a run with closed standard descriptors is the same run, and its messages end up in no file") {
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  std::vector<double> expected;
  for (int closed = 0; closed < 8; ++closed) {
    const fs::path run = folder / std::to_string(closed);
    const Outcome fit = fit_with_closed(closed, ranks, run);
    INFO("ranks: " << ranks << ", closed: " << closed << "\n" << fit.text());
    REQUIRE(fit.ok());
    CHECK(files_with_messages(run) == std::vector<std::string>());
    CHECK(fit.out.empty() == ((closed & 2) != 0));
    const auto losses = CsvTable::read(version_folder(run) / "metrics.csv").values("val_loss");
    if (closed == 0) expected = losses;
    REQUIRE(losses.size() == 2);
    CHECK(losses == expected);
  }
}

TEST_CASE("a user's own program with closed standard descriptors runs on several ranks") {
  const TemporaryFolder folder;
  const Outcome outcome =
      run({.arguments = {"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", LEVIN_BINARY_DIR "/bin/printing_program", "2", "dataset",
                         folder.path().string(), "debug"},
           .environment = {{"OMP_NUM_THREADS", "1"}}});
  INFO(outcome.text());
  CHECK(outcome.ok());
}

}  // namespace
}  // namespace levin::test
