#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/metric_objects.h"
#include "levin/core/base/error.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;

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

TEST_CASE("an epoch of metric objects continues from a snapshot, on one rank instead of two as well") {
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
  CHECK_THROWS_WITH(rank.store.log("x", stranger, {}, kHere), Contains("log(\"x\")") && Contains("add_metric"));
  CHECK_THROWS_WITH(rank.store.log("x", rank.mean, {.reduce = Reduce::kSum}, kHere), Contains("reduce"));
  rank.store.log("x", rank.mean, {}, kHere);
  rank.store.enter(Hook::kValidationStep);
  CHECK_THROWS_WITH(rank.store.log("y", rank.mean, {}, kHere), Contains("training_step") && Contains("each stage"));
}

TEST_CASE("a metric object that computes more values than it has names says so, on every rank") {
  testing::SimulatedRanks simulation;
  const auto result = simulation.run(2, 3, [](ControlGroup& group) {
    MetricStore store(group, {});
    Growing growing;
    growing.set_name("growing");
    store.set_objects({&growing});
    store.begin_stage(Stage::kTrain);
    store.enter(Hook::kTrainingStep);
    growing.update(at::ones({2}, at::kDouble), {});
    store.log("values", growing, {.on_step = false, .on_epoch = true}, kHere);
    store.meet({BoundaryKind::kEpochReached, Stage::kTrain, 0, 0}, {});
  });
  for (const auto& error : result.errors) {
    CHECK_THROWS_WITH(std::rethrow_exception(error), Contains("growing") && Contains("metric_objects.h:") &&
                                                         Contains("computes 2 values") && Contains("0 of an empty one"));
  }
  CHECK_FALSE(result.hung);
}

TEST_CASE("metric objects of one name that differ by rank end all ranks, with where both are made") {
  // One of the two may not have logged it: the next boundary finds it then.
  for (const bool both : {true, false}) {
    testing::SimulatedRanks simulation;
    const auto result = simulation.run(2, 3, [&](ControlGroup& group) {
      MetricStore store(group, {});
      Mean mean;
      Range range;
      Metric& object = group.rank() == 0 ? static_cast<Metric&>(mean) : range;
      object.set_name("object");
      store.set_objects({&object});
      store.begin_stage(Stage::kTrain);
      store.enter(Hook::kTrainingStep);
      object.update(at::ones({2}, at::kDouble), at::ones({2}, at::kDouble));
      if (both || group.rank() == 0) store.log("value", object, {.on_step = false, .on_epoch = true}, kHere);
      store.meet({BoundaryKind::kEpochReached, Stage::kTrain, 0, 0}, {});
      store.meet({BoundaryKind::kEpochEnd, Stage::kTrain, 0, 0}, {});
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      INFO("rank " << rank << (both ? ", both log" : ", rank 0 logs"));
      REQUIRE(result.errors[rank]);
      if (both) {
        CHECK_THROWS_WITH(std::rethrow_exception(result.errors[rank]),
                          Contains("differs by rank: 2 numbers, 0 lists of rows and 1 values on rank 0 "
                                   "(metric_objects.h:") &&
                              Contains("2 values on rank 1"));
      }
    }
    CHECK_FALSE(result.hung);
  }
}

TEST_CASE("a snapshot's metric object that the module has no more is left out") {
  SingleProcessGroup group;
  RankMetrics saved(group);
  saved.store.begin_stage(Stage::kTrain);
  saved.batch({1, 2}, {.on_epoch = true});
  MetricStore store(group, {});
  Mean mean;
  mean.set_name("mean");
  store.set_objects({&mean});
  store.begin_stage(Stage::kTrain);
  store.restore({saved.store.save()});
  store.meet({BoundaryKind::kEpochReached, Stage::kTrain, 0, 0}, {});
  CHECK(store.meet({BoundaryKind::kEpochEnd, Stage::kTrain, 0, 0}, {}).logger_row == MetricMap{{"mean_epoch", 1.5}});
}

TEST_CASE("a metric object that leaves the run and comes back is logged again") {
  SingleProcessGroup group;
  RankMetrics rank(group);
  rank.store.begin_stage(Stage::kTrain);
  rank.batch({1, 2}, {.on_epoch = true});
  rank.store.set_objects({&rank.mean});
  rank.store.set_objects({&rank.mean, &rank.range, &rank.median, &rank.variance});
  rank.batch({5, 7}, {.on_epoch = true});
  rank.meet(BoundaryKind::kEpochReached);
  const MetricMap row = rank.meet(BoundaryKind::kEpochEnd).logger_row;
  CHECK(row.at("mean_epoch") == Approx((1 + 2 + 5 + 7) / 4.0));
  CHECK(row.at("median_epoch") == 5);  // what it had seen went when it left
  CHECK(rank.store.callback_metrics().at("range_1_step") == 7);
}

TEST_CASE("one rank instead of two continues with the step that was logged last, and does not mix it with an older one") {
  std::vector<MetricSnapshot> saved;
  for (const int rank : {0, 1}) {
    SingleProcessGroup group;
    RankMetrics run(group);
    run.store.begin_stage(Stage::kTrain);
    run.batch({1.0 + rank, 3.0 + rank});
    run.store.enter(Hook::kTrainingStep);
    run.store.log("plain", 10.0 + rank, {.reduce = Reduce::kSum}, kHere);
    if (rank == 1) run.meet(BoundaryKind::kTrainStep);
    saved.push_back(run.store.save());
  }
  for (const bool reversed : {false, true}) {
    if (reversed) std::swap(saved[0], saved[1]);
    SingleProcessGroup group;
    RankMetrics run(group);
    run.store.begin_stage(Stage::kTrain);
    run.store.restore(saved);
    MetricMap expected = expected_of({1, 3});
    expected["plain"] = 10;
    check_rows(run.meet(BoundaryKind::kTrainStep).logger_row, expected);
  }
}
