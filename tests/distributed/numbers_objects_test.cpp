#include "distributed/numbers_objects.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "distributed/numbers_oracle.h"

using namespace levin::test;

namespace {

/// What a metric object of numbers_program computes of these batches, one after another.
double value_of(Keeps keeps, const RankBatches& batches) {
  double value = 0;
  double order = 0;
  for (const std::vector<double>& batch : batches) {
    for (std::size_t place = 1; place <= batch.size(); ++place) {
      const double number = batch[place - 1];
      ++order;
      if (keeps != Keeps::kSamples) value += number;
      if (keeps != Keeps::kNumbers) value += number * order * 3 * static_cast<double>(place);
    }
  }
  return value;
}

}  // namespace

TEST_CASE("every metric object is what a list of all samples gives, whatever is logged of it and of others, and when") {
  const auto [ranks, samples, batch] =
      GENERATE(table<int, int, int>({{1, 13, 4}, {2, 13, 3}, {2, 13, 2}, {3, 8, 2}, {4, 3, 2}}));
  const int log_every = GENERATE(1, 2, 100);
  const GoodRun run(
      "numbers", "logs_objects", ranks,
      {"samples=" + std::to_string(samples), "batch=" + std::to_string(batch), "log_every=" + std::to_string(log_every)});
  const auto by_rank = divide(samples, ranks, batch);
  std::size_t steps = 0;
  for (const RankBatches& batches : by_rank) steps = std::max(steps, batches.size());
  const CsvTable rows = CsvTable::read(run.folder / "run" / "metrics.csv");
  for (const NumbersObject& object : numbers_objects()) {
    const RanksOracle<NumbersObject, std::vector<double>> oracle(
        object, by_rank, [&](const RankBatches& batches) { return value_of(object.keeps, batches); });
    for (const bool trains : {true, false}) {
      const std::string name = (trains ? "" : "val_") + object.name;
      const std::string epoch_name = name + (object.is_fork(trains) ? "_epoch" : "");
      const std::string step_name = name + (object.is_fork(trains) ? "_step" : "");
      if (object.is_on_epoch(trains)) {
        check_column(rows, epoch_name, {oracle.epoch(), oracle.epoch()});
        for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
          check_value(run, rank, "fit_callback:" + name, oracle.seen_by(rank));
          check_value(run, rank, "fit_logged:" + epoch_name, oracle.seen_by(rank));
          check_value(run, rank, "fit_bar:" + epoch_name, oracle.seen_by(rank));
          const std::string column = "rank_" + std::to_string(rank) + "_" + epoch_name;
          const auto own = object.per_rank ? oracle.epoch_of(rank) : std::nullopt;
          check_column(rows, column, {own, own});
          if (!trains)
            check_value(run, rank, "test:test_" + object.name + (object.is_fork(false) ? "_epoch" : ""), oracle.seen_by(rank));
        }
      } else {
        CHECK_FALSE(rows.has(epoch_name + "_epoch"));
      }
      if (!trains || !object.is_on_step(trains)) continue;
      std::vector<std::optional<double>> of_rows;
      const auto every = static_cast<std::size_t>(log_every);
      for (std::size_t step = 0; step < 2 * steps; ++step) {
        if ((step + 1) % every != 0) continue;
        // What no row had of an epoch ends with it.
        const std::size_t in_epoch = step % steps;
        of_rows.push_back(oracle.step(in_epoch, std::min(every, in_epoch + 1)));
      }
      check_column(rows, step_name, of_rows);
    }
  }
}
