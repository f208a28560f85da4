#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/metric_objects.h"
#include "levin/core/base/error.h"

using namespace levin;
using namespace levin::test;

namespace {

/// What a rank sees of an epoch: batches of different sizes, none on some ranks.
std::vector<std::vector<double>> batches_of(int rank, int ranks) {
  std::vector<std::vector<double>> batches(static_cast<std::size_t>(rank == 1 && ranks > 2 ? 0 : 1 + rank % 3));
  double next = 100 * rank;
  for (std::vector<double>& batch : batches) {
    batch.resize(static_cast<std::size_t>(1 + (rank + 1) % 4));
    for (double& value : batch) value = (next = std::fmod(next * 1.7 + 13.3, 29)) - 7;
  }
  return batches;
}

}  // namespace

TEST_CASE("the state of a metric object is merged over ranks exactly, however uneven they are") {
  for (const int ranks : {1, 2, 4, 16}) {
    INFO(ranks << " ranks");
    std::vector<double> all;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& batch : batches_of(rank, ranks)) all.insert(all.end(), batch.begin(), batch.end());
    }
    testing::SimulatedRanks simulation;
    const auto result = simulation.run(ranks, 7, [&](ControlGroup& group) {
      RankMetrics rank(group);
      rank.store.begin_stage(Stage::kTrain);
      // The second epoch starts from nothing.
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (const auto& batch : batches_of(group.rank(), ranks)) rank.batch(batch, {.on_step = false, .on_epoch = true});
        rank.meet(BoundaryKind::kEpochReached);
        check_rows(rank.store.callback_metrics(), expected_of(all));
        CHECK(rank.mean.compute().item() == Approx(expected_of(all).at("mean")));
        const auto collectives = rank.store.collectives();
        check_rows(rank.meet(BoundaryKind::kEpochEnd).logger_row, expected_of(all));
        CHECK(rank.store.collectives() == collectives + 1);  // rows do not travel twice
        rank.store.reset_epoch();
      }
    });
    rethrow_first(result);
  }
}

TEST_CASE("a step has the batch's value: each rank's own, or all ranks' with sync_dist") {
  testing::SimulatedRanks simulation;
  const auto result = simulation.run(2, 3, [](ControlGroup& group) {
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    for (const double first : {1.0, 5.0}) {
      rank.batch({first + 10 * group.rank(), first + 2}, {.sync_dist = true});
      check_rows(rank.meet(BoundaryKind::kTrainStep).logger_row, expected_of({first, first + 2, first + 10, first + 2}));
    }
  });
  rethrow_first(result);
  const auto local = simulation.run(2, 3, [](ControlGroup& group) {
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    for (const double first : {1.0, 5.0}) {
      const MetricMap own = expected_of({first + 10 * group.rank(), first + 2});
      rank.batch({first + 10 * group.rank(), first + 2});
      check_rows(rank.store.callback_metrics(), own);
      check_rows(rank.store.local_step_row(), own);
      const BoundaryOutcome outcome = rank.meet(BoundaryKind::kTrainStep);
      check_rows(outcome.local_row, own);
      check_rows(outcome.logger_row, expected_of({first, first + 2}));
      check_rows(outcome.rank_rows[1], expected_of({first + 10, first + 2}));
    }
  });
  rethrow_first(local);
}

TEST_CASE("a step that is logged has its batch alone, and the epoch also those that log nothing") {
  SingleProcessGroup group;
  RankMetrics rank(group);
  const auto batch = [&](double value, bool logs) {
    rank.store.begin_batch({.batch_size = 1});
    rank.store.enter(Hook::kTrainingStep);
    rank.mean.update(at::tensor({value}, at::kDouble), at::tensor({1.0}, at::kDouble));
    if (logs) rank.store.log("mean", rank.mean, {.on_step = true, .on_epoch = true}, kHere);
    rank.store.end_batch();
  };
  rank.store.begin_stage(Stage::kTrain);
  batch(1, true);
  MetricSnapshot saved;
  for (int epoch = 0; epoch < 2; ++epoch) {
    batch(2, false);
    saved = rank.store.save();
    batch(3, false);
    batch(6, true);
    CHECK(rank.store.callback_metrics().at("mean_step") == 6);
    rank.meet(BoundaryKind::kEpochReached);
    CHECK(rank.store.callback_metrics().at("mean_epoch") == Approx(epoch == 0 ? 3 : 11.0 / 3));
    rank.meet(BoundaryKind::kEpochEnd);
    rank.store.reset_epoch();
  }
  rank.store.restore({saved});
  batch(3, false);
  batch(6, true);
  CHECK(rank.store.callback_metrics().at("mean_step") == 6);
}

TEST_CASE("an epoch of metric objects goes on from a snapshot, on one rank in place of two as well") {
  std::vector<MetricSnapshot> saved;
  for (const double first : {1.0, 4.0}) {
    SingleProcessGroup group;
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    rank.batch({first, first + 1}, {.on_epoch = true});
    saved.push_back(rank.store.save());
    rank.batch({100}, {.on_epoch = true});
  }
  SingleProcessGroup group;
  RankMetrics rank(group);
  rank.store.begin_stage(Stage::kTrain);
  rank.store.restore(saved);
  rank.batch({9, 10, 11}, {.on_epoch = true});
  check_rows(rank.meet(BoundaryKind::kTrainStep).logger_row, expected_of({9, 10, 11}, "_step"));
  rank.meet(BoundaryKind::kEpochReached);
  check_rows(rank.meet(BoundaryKind::kEpochEnd).logger_row, expected_of({1, 2, 4, 5, 9, 10, 11}, "_epoch"));
}

TEST_CASE("what cannot be logged of a metric object is refused, with the key and the reason") {
  SingleProcessGroup group;
  RankMetrics rank(group);
  Mean stranger;
  stranger.set_name("stranger");
  rank.store.begin_stage(Stage::kTrain);
  rank.store.enter(Hook::kTrainingStep);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(rank.store.log("x", stranger, {}, kHere), Contains("log(\"x\")") && Contains("add_metric"));
  CHECK_THROWS_WITH(rank.store.log("x", rank.mean, {.reduce = Reduce::kSum}, kHere), Contains("reduce"));
  rank.store.log("x", rank.mean, {}, kHere);
  rank.store.enter(Hook::kValidationStep);
  CHECK_THROWS_WITH(rank.store.log("y", rank.mean, {}, kHere), Contains("training_step") && Contains("each stage"));
}
