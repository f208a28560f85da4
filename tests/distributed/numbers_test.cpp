#include <catch2/catch.hpp>

#include "distributed/numbers_oracle.h"

using namespace levin::test;

namespace {

std::string epoch_name(const NumbersKey& key) { return key.name + (key.on_step ? "_epoch" : ""); }
std::string column_of_rank(std::size_t rank, const std::string& name) { return "rank_" + std::to_string(rank) + "_" + name; }

std::size_t most_batches(const std::vector<RankBatches>& by_rank) {
  std::size_t most = 0;
  for (const RankBatches& batches : by_rank) most = std::max(most, batches.size());
  return most;
}

/// One way of dividing samples over ranks, run once, and its expected results.
struct Division {
  int ranks;
  int samples;
  int batch;
  int loaders = 1;

  std::vector<RankBatches> of(int loader) const { return divide(loader == 0 ? samples : samples / 2, ranks, batch); }
  std::vector<std::string> settings() const {
    return {"samples=" + std::to_string(samples), "batch=" + std::to_string(batch), "loaders=" + std::to_string(loaders)};
  }
};

void check_views(const RankRun& run, const Division& division) {
  for (const NumbersKey& key : numbers_keys()) {
    const NumbersOracle training(key, division.of(0));
    for (int rank = 0; rank < division.ranks; ++rank) {
      const auto own = static_cast<std::size_t>(rank);
      check_value(run, own, "fit_callback:" + key.name, training.seen_by(own));
      check_value(run, own, "fit_logged:" + epoch_name(key), training.seen_by(own));
      check_value(run, own, "fit_bar:" + epoch_name(key), training.seen_by(own));
      for (int loader = 0; loader < division.loaders; ++loader) {
        const NumbersOracle evaluation(key, division.of(loader));
        const std::string suffix = division.loaders == 1 ? "" : "/dataloader_idx_" + std::to_string(loader);
        const std::string number = std::to_string(loader);
        check_value(run, own, "fit_callback:val_" + key.name + suffix, evaluation.seen_by(own));
        check_value(run, own, "validate" + number + ":val_" + epoch_name(key) + suffix, evaluation.seen_by(own));
        check_value(run, own, "test" + number + ":test_" + epoch_name(key) + suffix, evaluation.seen_by(own));
        // For a forked key the results hold the epoch's value, under its own name.
        if (key.on_step) CHECK_FALSE(run.has(own, "test" + number + ":test_" + key.name + suffix));
      }
    }
  }
}

void check_main_file(const RankRun& run, const Division& division) {
  const CsvTable rows = CsvTable::read(run.folder / "run" / "metrics.csv");
  const std::size_t steps = most_batches(division.of(0));
  for (const NumbersKey& key : numbers_keys()) {
    const NumbersOracle training(key, division.of(0));
    check_column(rows, epoch_name(key), {training.epoch()});
    std::vector<std::optional<double>> of_steps;
    for (std::size_t step = 0; step < steps && key.on_step; ++step) of_steps.push_back(training.step(step));
    if (key.on_step) check_column(rows, key.name + "_step", of_steps);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(division.ranks); ++rank) {
      const std::string column = column_of_rank(rank, epoch_name(key));
      if (key.per_rank) {
        check_column(rows, column, {training.epoch_of(rank)});
      } else {
        CHECK_FALSE(rows.has(column));
      }
    }
    for (int loader = 0; loader < division.loaders; ++loader) {
      const NumbersOracle evaluation(key, division.of(loader));
      const std::string suffix = division.loaders == 1 ? "" : "/dataloader_idx_" + std::to_string(loader);
      // Once from fit, once from validate.
      check_column(rows, "val_" + epoch_name(key) + suffix, {evaluation.epoch(), evaluation.epoch()});
      check_column(rows, "test_" + epoch_name(key) + suffix, {evaluation.epoch()});
    }
  }
}

void check_rank_files(const RankRun& run, const Division& division) {
  const auto by_rank = division.of(0);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    INFO("file of rank " << rank);
    const auto path = run.folder / "run" / ("metrics_rank_" + std::to_string(rank) + ".csv");
    const bool has_batches = !by_rank[rank].empty();
    REQUIRE(std::filesystem::exists(path) == has_batches);
    if (!has_batches) continue;
    const CsvTable rows = CsvTable::read(path);
    for (const NumbersKey& key : numbers_keys()) {
      const NumbersOracle training(key, by_rank);
      const bool counts = rank == 0 || !key.rank_zero_only;
      check_column(rows, epoch_name(key), {counts ? training.epoch_of(rank) : std::nullopt});
      std::vector<std::optional<double>> of_steps;
      for (std::size_t step = 0; counts && step < by_rank[rank].size(); ++step)
        of_steps.push_back(training.step_of(rank, step));
      if (key.on_step) check_column(rows, key.name + "_step", of_steps);
    }
  }
}

}  // namespace

TEST_CASE("every metric is what a list of all values gives, on every rank and in every file") {
  const Division division = GENERATE(Division{1, 26, 8}, Division{2, 26, 4}, Division{4, 26, 2}, Division{4, 26, 5},
                                     Division{2, 7, 3, 2}, Division{4, 3, 2}, Division{4, 9, 1, 2});
  const GoodRun run("numbers", "logs", division.ranks, division.settings());
  // A key that every rank logs needs no warning, even if some ranks have no batch.
  CHECK(run.outcome.err.find("log(") == std::string::npos);
  check_views(run, division);
  check_main_file(run, division);
  check_rank_files(run, division);
  double predicted = 0;
  for (int rank = 0; rank < division.ranks; ++rank) predicted += run.number(static_cast<std::size_t>(rank), "predicted");
  double expected = 0;
  for (int loader = 0; loader < division.loaders; ++loader) {
    const int samples = loader == 0 ? division.samples : division.samples / 2;
    for (int index = 0; index < samples; ++index) expected += 2 * sample(index);
  }
  CHECK(predicted == Approx(expected));
}
