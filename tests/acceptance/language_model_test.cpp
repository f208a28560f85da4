#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

std::string alice() { return read_text(LEVIN_SOURCE_DIR "/examples/language_model/data/alice.txt"); }

Outcome language_model(const std::string& command, const fs::path& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {command, "--config", LEVIN_SOURCE_DIR "/examples/language_model/config.yaml",
                                        "--trainer.default_root_dir=" + folder.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = levin(arguments);
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return outcome;
}

std::vector<double> val_loss_of(const fs::path& version) { return CsvTable::read(version / "metrics.csv").values("val_loss"); }

/// What one of the characters costs at least when each is guessed by how frequent it is, in nats.
double unigram_entropy(const std::string& text) {
  std::array<double, 256> counts = {};
  for (const char character : text) ++counts.at(static_cast<unsigned char>(character));
  double entropy = 0;
  for (const double count : counts) {
    const double share = count / static_cast<double>(text.size());
    if (share > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

/// The 300 characters that a prediction begins with this prompt.
std::string written(const std::string& printed, const std::string& prompt) {
  const auto begin = printed.find("\n" + prompt);
  REQUIRE(begin != std::string::npos);
  REQUIRE(printed.size() > begin + 301);
  return printed.substr(begin + 1, 300);
}

fs::path checkpoint_of_epoch(const fs::path& folder, int epoch) {
  const std::string beginning = "epoch=" + std::to_string(epoch) + "-";
  for (const auto& entry : fs::directory_iterator(version_folder(folder) / "checkpoints")) {
    if (entry.path().filename().string().starts_with(beginning)) return entry.path();
  }
  FAIL("no checkpoint of epoch " << epoch);
  return {};
}

}  // namespace

TEST_CASE("the language model beats guessing by frequency, writes with the text's characters, and resumes exactly") {
  const TemporaryFolder folder;
  const std::vector<std::string> printed =
      run_from_root(shell_blocks(LEVIN_SOURCE_DIR "/examples/language_model/README.md"), folder.path());
  REQUIRE(printed.size() == 2);
  const std::string text = alice();
  const double entropy = unigram_entropy(text);
  CHECK(entropy == Approx(3.13).margin(0.01));

  const CsvTable metrics = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
  const std::vector<double> val_loss = val_loss_of(version_folder(folder.path()));
  REQUIRE(val_loss.size() == 4);
  CHECK(val_loss.back() < entropy - 1);
  CHECK(val_loss.back() > 1.2);  // less is for networks that see the character that they are to predict

  // The rate warms up over a tenth of the steps, and ends near zero.
  const std::vector<double> rates = metrics.values("lr-AdamW/pg1");
  const auto highest = std::max_element(rates.begin(), rates.end());
  CHECK(*highest == Approx(0.006).epsilon(0.05));
  CHECK(highest - rates.begin() == 2);
  CHECK(rates.back() < 1e-4);

  for (const char* prompt : {"Alice", "The Queen"}) {
    CHECK(written(printed[0], prompt).find_first_not_of(text) == std::string::npos);
  }
  const std::string best = "--ckpt_path=" + checkpoint_of_epoch(folder.path(), 3).string();
  const std::string again = written(language_model("predict", folder.path(), {best}).out, "Alice");
  CHECK(again == written(printed[0], "Alice"));
  CHECK(again != written(language_model("predict", folder.path(), {best, "--seed_everything=2"}).out, "Alice"));

  const TemporaryFolder resumed;
  language_model("fit", resumed.path(), {"--ckpt_path=" + checkpoint_of_epoch(folder.path(), 2).string()});
  CHECK(val_loss_of(version_folder(resumed.path())) == val_loss);

  // The same global batches on one rank and on two.
  const TemporaryFolder short_run;
  language_model("fit", short_run.path(), {"--trainer.max_epochs=1"});
  const double one_rank = val_loss_of(version_folder(short_run.path())).at(0);
  CHECK(one_rank < entropy - 0.4);
  CHECK(val_loss_of(version_folder(folder.path(), 3)).at(0) == Approx(one_rank).margin(0.05));
}

}  // namespace levin::test
