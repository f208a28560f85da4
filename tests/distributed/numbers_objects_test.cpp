#include "distributed/numbers_objects.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "distributed/numbers_oracle.h"
#include "distributed/rank_run.h"
#include "support/csv_table.h"

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

/// What numbers_program must come to, from lists of all samples and nothing else. The batches of one rank, or of all in the
/// order of ranks.
class ObjectsOracle {
 public:
  ObjectsOracle(NumbersObject object, std::vector<RankBatches> by_rank)
      : object_(std::move(object)), by_rank_(std::move(by_rank)) {}

  /// What rank 0 writes of an epoch; unset if no rank has a batch.
  std::optional<double> epoch() const {
    if (object_.rank_zero_only) return epoch_of(0);
    if (object_.sync_dist == false) return of_lowest([&](std::size_t rank) { return epoch_of(rank); });
    RankBatches all;
    for (const RankBatches& batches : by_rank_) all.insert(all.end(), batches.begin(), batches.end());
    return of(all);
  }
  std::optional<double> epoch_of(std::size_t rank) const { return of(by_rank_[rank]); }
  /// What rank 0 writes in the row of a step: of each rank the last batch of those since the row before.
  std::optional<double> row(std::size_t step, std::size_t steps_since) const {
    const auto of_rank = [&](std::size_t rank) -> std::optional<double> {
      const auto batch = batch_of(rank, step, steps_since);
      return batch ? of({*batch}) : std::nullopt;
    };
    if (object_.rank_zero_only) return of_rank(0);
    if (object_.sync_dist != true) return of_lowest(of_rank);
    RankBatches all;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (const auto batch = batch_of(rank, step, steps_since)) all.push_back(*batch);
    }
    return of(all);
  }
  /// What one rank sees in the end.
  std::optional<double> seen_by(std::size_t rank) const { return object_.sync_dist == false ? epoch_of(rank) : epoch(); }

 private:
  template <class Value>
  std::optional<double> of_lowest(Value value) const {
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (const auto found = value(rank)) return found;
    }
    return std::nullopt;
  }
  std::optional<std::vector<double>> batch_of(std::size_t rank, std::size_t step, std::size_t steps_since) const {
    const RankBatches& batches = by_rank_[rank];
    const std::size_t last = std::min(step + 1, batches.size());  // and one
    return last + steps_since > step + 1 ? std::optional(batches[last - 1]) : std::nullopt;
  }
  std::optional<double> of(const RankBatches& batches) const {
    return batches.empty() ? std::nullopt : std::optional(value_of(object_.keeps, batches));
  }

  NumbersObject object_;
  std::vector<RankBatches> by_rank_;
};

void check_column(const CsvTable& table, const std::string& name, const std::vector<double>& expected) {
  INFO("column " << name);
  const std::vector<double> values = table.has(name) ? table.values(name) : std::vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t row = 0; row < values.size(); ++row) CHECK(values[row] == Approx(expected[row]).epsilon(1e-12));
}

/// The same in each of two epochs; nothing where there is no value.
std::vector<double> in_both_epochs(const std::vector<std::optional<double>>& values) {
  std::vector<double> found;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& value : values) {
      if (value) found.push_back(*value);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every metric object is what a list of all samples gives, whatever is logged of it and of others, and when") {
  const auto [ranks, samples, batch] =
      GENERATE(table<int, int, int>({{1, 13, 4}, {2, 13, 3}, {2, 13, 2}, {3, 8, 2}, {4, 3, 2}}));
  const int log_every = GENERATE(1, 2, 100);
  const RankRun run(
      "numbers", "logs_objects", ranks,
      {"samples=" + std::to_string(samples), "batch=" + std::to_string(batch), "log_every=" + std::to_string(log_every)});
  REQUIRE(run.outcome.ok());
  const auto by_rank = divide(samples, ranks, batch);
  std::size_t steps = 0;
  for (const RankBatches& batches : by_rank) steps = std::max(steps, batches.size());

  const auto check_seen = [&](std::size_t rank, const std::string& name, const std::optional<double>& expected) {
    INFO(name << " on rank " << rank);
    REQUIRE(run.has(rank, name) == expected.has_value());
    if (expected) CHECK(run.number(rank, name) == Approx(*expected).epsilon(1e-12));
  };
  const CsvTable rows = CsvTable::read(run.folder / "run" / "metrics.csv");
  for (const NumbersObject& object : numbers_objects()) {
    const ObjectsOracle oracle(object, by_rank);
    for (const bool trains : {true, false}) {
      const std::string name = (trains ? "" : "val_") + object.name;
      const std::string epoch_name = name + (object.is_fork(trains) ? "_epoch" : "");
      const std::string step_name = name + (object.is_fork(trains) ? "_step" : "");
      if (object.is_on_epoch(trains)) {
        check_column(rows, epoch_name, in_both_epochs({oracle.epoch()}));
        for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
          check_seen(rank, "fit_callback:" + name, oracle.seen_by(rank));
          check_seen(rank, "fit_logged:" + epoch_name, oracle.seen_by(rank));
          check_seen(rank, "fit_bar:" + epoch_name, oracle.seen_by(rank));
          const std::string column = "rank_" + std::to_string(rank) + "_" + epoch_name;
          check_column(rows, column, object.per_rank ? in_both_epochs({oracle.epoch_of(rank)}) : std::vector<double>());
          if (!trains)
            check_seen(rank, "test:test_" + object.name + (object.is_fork(false) ? "_epoch" : ""), oracle.seen_by(rank));
        }
      } else {
        CHECK_FALSE(rows.has(epoch_name + "_epoch"));
      }
      if (!trains || !object.is_on_step(trains)) continue;
      std::vector<double> of_rows;
      const auto every = static_cast<std::size_t>(log_every);
      for (std::size_t step = 0; step < 2 * steps; ++step) {
        if ((step + 1) % every != 0) continue;
        // What no row had of an epoch ends with it.
        const std::size_t in_epoch = step % steps;
        if (const auto value = oracle.row(in_epoch, std::min(every, in_epoch + 1))) of_rows.push_back(*value);
      }
      check_column(rows, step_name, of_rows);
    }
  }
}
