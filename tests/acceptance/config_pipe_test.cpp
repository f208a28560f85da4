#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// Runs `levin fit MORE…` in a shell, where the program is $levin and the configuration $config, for two epochs on `ranks`.
Outcome fit_in_shell(const std::string& more, int ranks, const fs::path& folder) {
  return run(
      {.arguments = {"bash", "-c",
                     "exec \"$levin\" fit " + more + " --trainer.max_epochs=2 --trainer.accelerator=cpu --trainer.devices=" +
                         std::to_string(ranks) + " --trainer.default_root_dir=\"$folder\""},
       // Where the data file is that the configuration names.
       .folder = fs::path(digits_config()).parent_path(),
       .environment = {
           {"OMP_NUM_THREADS", "1"}, {"levin", levin_program()}, {"config", digits_config()}, {"folder", folder.string()}}});
}

TEST_CASE("a configuration may come from a pipe, on any number of ranks") {
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const Outcome from_file = fit_in_shell("--config \"$config\"", ranks, folder / "file");
  INFO(from_file.text());
  REQUIRE(from_file.ok());
  const auto expected = CsvTable::read(version_folder(folder / "file") / "metrics.csv").values("val_loss");
  REQUIRE(expected.size() == 2);
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"substitution", "--config <(cat \"$config\")"},
      {"redirection", "--config /dev/stdin <\"$config\""},
      {"two", "--config <(grep -v seed_everything \"$config\") --config /dev/stdin <<<'seed_everything: 42'"}};
  for (const auto& [name, arguments] : ways) {
    const Outcome fit = fit_in_shell(arguments, ranks, folder / name);
    INFO(fit.text());
    REQUIRE(fit.ok());
    CHECK(CsvTable::read(version_folder(folder / name) / "metrics.csv").values("val_loss") == expected);
    CHECK_THAT(read_text(version_folder(folder / name) / "config.yaml"),
               Contains("\nseed_everything: 42\n") && Contains("class_path: Digits\n") && Contains("digits/data/digits.csv\n"));
  }
}

TEST_CASE("a mistake in a configuration from a pipe is shown with its line, although the pipe is read only once") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_in_shell("--config /dev/stdin <<<$'trainer:\\n  max_epoch: 1'", 2, folder.path());
  INFO(outcome.text());
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("/dev/stdin:2:3") && Contains("\n  2 |   max_epoch: 1\n    |   ^"));
}

}  // namespace
}  // namespace levin::test
