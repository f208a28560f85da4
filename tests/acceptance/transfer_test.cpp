#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// The images of some digits, as the README's grep gives them.
std::string some_digits(const fs::path& folder, char first, char last) {
  const fs::path path = folder / (std::string("from_") + first + ".csv");
  std::ifstream all(LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv");
  std::ofstream some(path);
  for (std::string line; std::getline(all, line);) {
    if (line.back() >= first && line.back() <= last) some << line << "\n";
  }
  return path.string();
}

void fit_transfer(const fs::path& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"fit", "--config", LEVIN_SOURCE_DIR "/examples/transfer/config.yaml",
                                        "--trainer.default_root_dir=" + folder.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = levin(arguments);
  INFO(outcome.text());
  REQUIRE(outcome.ok());
}

fs::path last_checkpoint(const fs::path& folder) { return version_folder(folder) / "checkpoints/last.ckpt"; }

double last_accuracy(const fs::path& folder) {
  return CsvTable::read(version_folder(folder) / "metrics.csv").values("val_acc").back();
}

/// Whether two checkpoints have the same weights below a name, and how many tensors these are.
std::pair<bool, int> same_weights(const fs::path& one, const fs::path& other, const std::string& beginning) {
  const Checkpoint first = Checkpoint::load(one);
  const Checkpoint second = Checkpoint::load(other);
  bool same = true;
  int tensors = 0;
  for (const auto& [name, tensor] : first.tensors) {
    if (!name.starts_with("state_dict." + beginning)) continue;
    ++tensors;
    same = same && tensor.equal(second.tensors.at(name));
  }
  return {same, tensors};
}

TEST_CASE("a network that knows other digits learns new ones from few images, better than one that knows none") {
  const TemporaryFolder folder;
  fit_transfer(folder / "known", {"--data.path=" + some_digits(folder.path(), '0', '4')});
  CHECK(last_accuracy(folder / "known") > 0.9);

  const fs::path known = last_checkpoint(folder / "known");
  const std::vector<std::string> few = {"--data.path=" + some_digits(folder.path(), '5', '9'), "--data.val_fraction=0.95"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), few.begin(), few.end());
    return more;
  };
  const std::string weights = "--model.weights=" + known.string();
  fit_transfer(folder / "scratch", with({}));
  fit_transfer(folder / "transfer", with({weights}));
  fit_transfer(folder / "frozen", with({weights, "--model.unfreeze_epoch=100"}));
  // Two ranks with batches of 8 see the same global batches as one with batches of 16.
  fit_transfer(folder / "ranks", with({weights, "--trainer.devices=2", "--data.batch_size=8"}));

  const double from_scratch = last_accuracy(folder / "scratch");
  CHECK(from_scratch > 0.3);
  CHECK(last_accuracy(folder / "transfer") > from_scratch + 0.1);
  CHECK(last_accuracy(folder / "transfer") > 0.8);
  CHECK(last_accuracy(folder / "ranks") == Approx(last_accuracy(folder / "transfer")).margin(0.03));
  CHECK(same_weights(known, last_checkpoint(folder / "frozen"), "backbone.") == std::pair(true, 4));
  CHECK(same_weights(known, last_checkpoint(folder / "frozen"), "head.") == std::pair(false, 2));
  CHECK(same_weights(known, last_checkpoint(folder / "transfer"), "backbone.") == std::pair(false, 4));
}

}  // namespace
}  // namespace levin::test
