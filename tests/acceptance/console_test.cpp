#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "support/temporary_folder.h"
#include "support/terminal.h"

namespace levin::test {
namespace {

std::ptrdiff_t count(const std::vector<std::string>& lines, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return std::regex_search(line, regex); });
}

TEST_CASE("in a terminal rank 0 alone draws the bar, and no line of another rank is torn") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2, 4);
  const TerminalOutcome fit = run_in_terminal({.arguments = {LEVIN_BINARY_DIR "/bin/printing_program", std::to_string(ranks),
                                                             "dataset", folder.path().string(), "info"},
                                               .environment = {{"OMP_NUM_THREADS", "1"}, {"NO_COLOR", "1"}, {"LC_ALL", "C"}}},
                                              200);
  INFO(fit.text());
  REQUIRE(fit.status == 0);
  CHECK(fit.bytes.find("\rEpoch 0:") != std::string::npos);
  CHECK(fit.bytes.find("bar_of_rank=0") != std::string::npos);
  CHECK_FALSE(std::regex_search(fit.bytes, std::regex("bar_of_rank=[^0]")));
  const int batches = ranks == 1 ? 5 : ranks == 2 ? 3 : 2;
  const std::string bar =
      "Epoch 1: 100%\\|#+\\| " + std::to_string(batches) + "/" + std::to_string(batches) + " \\[.*samples/s.*\\]";
  // The bar of the last epoch is what stays; every other line is one that a rank printed, whole.
  CHECK(count(fit.lines, "^" + bar + "$") == 1);
  CHECK(count(fit.lines, "Epoch ") == 1);
  const std::regex whole(
      bar + R"(|levin \d.*ranks: \d \(.*\)|a table||  of the whole run|epoch \d batch \d everywhere|warning: watch epoch \d)" +
      R"(|warning: trainer.devices: .*|Training stopped: max_epochs=2 reached\.)" +
      R"(|(\[rank \d\] )?(device cpu .*batches of 2|own weights: \[1, 2\]|epoch \d batch \d here|samples of all ranks: \d+)" +
      R"(|warning: the rate is 0\.5|warning: from LibTorch .*))");
  for (const std::string& line : fit.lines) {
    INFO(line);
    CHECK(std::regex_match(line, whole));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(count(fit.lines, (ranks == 1 ? "^" : "^\\[rank " + std::to_string(rank) + "\\] ") + "epoch \\d batch \\d here$") ==
          2 * batches);
  }
}

}  // namespace
}  // namespace levin::test
