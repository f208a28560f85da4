#include <catch2/catch.hpp>
#include <future>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// Rank `rank` of two, started as torchrun starts it.
Outcome rank_of_two(int rank, const TemporaryFolder& folder) {
  return run(
      {.arguments = {levin_program(), "fit", "--config", digits_config(), "--trainer.max_epochs=2", "--trainer.devices=2",
                     "--trainer.accelerator=cpu", "--trainer.default_root_dir=" + folder.path().string()},
       .environment = {{"RANK", std::to_string(rank)},
                       {"LOCAL_RANK", std::to_string(rank)},
                       {"WORLD_SIZE", "2"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29517"},
                       {"OMP_NUM_THREADS", "1"}}});
}

TEST_CASE("ranks that torchrun started train together, and start no others") {
  const TemporaryFolder folder;
  auto second = std::async(std::launch::async, [&] { return rank_of_two(1, folder); });
  const Outcome first = rank_of_two(0, folder);
  const Outcome other = second.get();
  INFO(first.text());
  INFO(other.text());
  REQUIRE(first.ok());
  REQUIRE(other.ok());
  CHECK(CsvTable::read(version_folder(folder.path()) / "metrics.csv").values("val_loss").size() == 2);
  CHECK_FALSE(std::filesystem::exists(version_folder(folder.path(), 1)));
}

}  // namespace
}  // namespace levin::test
