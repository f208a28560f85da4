#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

void run_program(const std::string& program, const fs::path& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {LEVIN_BINARY_DIR "/bin/" + program,
                                        LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run({.arguments = arguments, .folder = folder, .environment = {{"OMP_NUM_THREADS", "1"}}});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
}

TEST_CASE("a loop of one's own around levin's pieces trains as the Trainer does, bit for bit") {
  const TemporaryFolder folder;
  run_program("own_trainer", folder.path());
  run_program("own_loop", folder.path());
  const CsvTable theirs = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
  const fs::path own_folder = folder / "logs/own_loop/version_0";
  const CsvTable own = CsvTable::read(own_folder / "metrics.csv");
  CHECK(own.values("train_loss").size() == 22);  // of 225 steps, every tenth
  CHECK(own.values("train_loss") == theirs.values("train_loss"));
  CHECK(own.values("step") == theirs.values("step"));
  REQUIRE(own.values("val_acc").size() == 5);
  for (std::size_t epoch = 0; epoch < 5; ++epoch) {
    CHECK(own.values("val_acc")[epoch] == Approx(theirs.values("val_acc")[epoch]));
  }
  CHECK(own.values("val_acc").back() > 0.9);

  const Checkpoint their_checkpoint = Checkpoint::load(best_checkpoint(folder.path()));
  const Checkpoint own_checkpoint = Checkpoint::load(own_folder / "checkpoints/last.ckpt");
  CHECK(own_checkpoint.tensors.size() == 4);
  for (const auto& [name, weights] : own_checkpoint.tensors) {
    INFO(name);
    REQUIRE(their_checkpoint.tensors.contains(name));
    CHECK(weights.equal(their_checkpoint.tensors.at(name)));
  }
}

TEST_CASE("a main() of one's own trains on two ranks") {
  const TemporaryFolder folder;
  run_program("own_trainer", folder.path(), {"2"});
  const CsvTable metrics = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
  CHECK(metrics.values("train_loss").size() == 22);
  CHECK(metrics.values("train_loss").front() > 1);
  CHECK(metrics.values("val_acc").back() > 0.9);
}

}  // namespace
}  // namespace levin::test
