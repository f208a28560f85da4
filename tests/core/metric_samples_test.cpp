// Metric objects that keep samples, whose rows travel, and what checkpoints hold of them.

#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "core/metric_objects.h"
#include "levin/core/base/error.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Two metrics of training and two of validation, which keep samples, on one rank.
struct PairedMetrics {
  PairedMetrics(ControlGroup& group, const LogOptions& trained, const LogOptions& validated)
      : store(group, {}), options{trained, validated} {
    std::vector<MetricObject*> all;
    for (std::size_t stage = 0; stage < 2; ++stage) {
      for (std::size_t number = 0; number < 2; ++number) {
        objects[stage][number].set_name((stage == 0 ? "train_" : "val_") + std::to_string(number));
        all.push_back(&objects[stage][number]);
      }
    }
    store.set_objects(all);
  }

  void batch(std::size_t stage, const std::vector<double>& values) {
    store.begin_batch({.batch_size = static_cast<std::int64_t>(values.size())});
    store.enter(stage == 0 ? Hook::kTrainingStep : Hook::kValidationStep);
    for (std::size_t number = 0; number < 2; ++number) {
      const at::Tensor tensor = at::tensor(values, at::kDouble) + static_cast<double>(number);
      Ordered& object = objects[stage][number];
      object.update(tensor, at::arange(1, tensor.numel() + 1, at::kShort));
      store.log(object.name(), object, options[stage], kHere);
      seen[epoch][stage][number].push_back(tensor);
    }
    store.end_batch();
  }

  MetricStore store;
  std::array<LogOptions, 2> options;
  std::array<std::array<Ordered, 2>, 2> objects;
  std::size_t epoch = 0;
  std::array<std::array<std::array<std::vector<at::Tensor>, 2>, 2>, 2> seen;  ///< by epoch, stage and number
};

/// What Ordered computes of batches, by hand.
double ordered_value(const std::vector<at::Tensor>& batches) {
  double sum = 0;
  double place = 0;
  for (const at::Tensor& batch : batches) {
    for (std::int64_t row = 0; row < batch.numel(); ++row)
      sum += ++place * static_cast<double>(row + 1) * batch[row].item<double>();
  }
  return sum;
}

}  // namespace

TEST_CASE("epoch values of kept samples are right whatever steps have told before, on any rank") {
  using Options = std::pair<const char*, LogOptions>;
  const std::vector<Options> ways = {{"by default", {}},
                                     {"on_step", {.on_step = true, .on_epoch = false}},
                                     {"on_epoch", {.on_step = false, .on_epoch = true}},
                                     {"both", {.on_step = true, .on_epoch = true}},
                                     {"both, sync_dist", {.on_step = true, .on_epoch = true, .sync_dist = true}},
                                     {"both, local", {.on_step = true, .on_epoch = true, .sync_dist = false}},
                                     {"both, rank 0", {.on_step = true, .on_epoch = true, .rank_zero_only = true}},
                                     {"both, each rank", {.on_step = true, .on_epoch = true, .per_rank = true}}};
  for (const Options& training : ways) {
    for (const Options& validation : ways) {
      for (const int ranks : {1, 2, 3}) {
        for (const int rows_every : {1, 2, 100}) {
          INFO("training " << training.first << ", validation " << validation.first << ", " << ranks << " ranks, a row every "
                           << rows_every);
          std::vector<std::unique_ptr<PairedMetrics>> by_rank(static_cast<std::size_t>(ranks));
          testing::SimulatedRanks simulation;
          const auto result = simulation.run(ranks, 5, [&](ControlGroup& group) {
            const auto own = static_cast<std::size_t>(group.rank());
            by_rank[own] = std::make_unique<PairedMetrics>(group, training.second, validation.second);
            PairedMetrics& rank = *by_rank[own];
            const auto check = [&](std::size_t stage, const BoundaryOutcome& outcome) {
              const LogOptions& options = rank.options[stage];
              const bool on_epoch = options.on_epoch.value_or(stage == 1);
              for (std::size_t number = 0; number < 2; ++number) {
                const bool forks = on_epoch && options.on_step.value_or(stage == 0);
                const std::string name = rank.objects[stage][number].name() + (forks ? "_epoch" : "");
                INFO(name << " in epoch " << rank.epoch);
                CHECK(outcome.logger_row.contains(name) == on_epoch);
                if (!on_epoch) continue;
                const bool is_local = options.rank_zero_only || options.sync_dist == false;
                const auto of_rank = [&](std::size_t which) { return by_rank[which]->seen[rank.epoch][stage][number]; };
                std::vector<at::Tensor> all = of_rank(0);
                for (std::size_t other = 1; other < by_rank.size() && !is_local; ++other) {
                  for (const at::Tensor& batch : of_rank(other)) all.push_back(batch);
                }
                CHECK(outcome.logger_row.at(name) == Approx(ordered_value(all)));
                if (!options.rank_zero_only || own == 0)
                  CHECK(outcome.rank_rows[own].at(name) == Approx(ordered_value(of_rank(own))));
              }
            };
            rank.store.begin_stage(Stage::kTrain);
            double next = 3 * group.rank();
            const auto values = [&](int count) {
              std::vector<double> list(static_cast<std::size_t>(count));
              for (double& value : list) value = (next = std::fmod(next * 1.7 + 13.3, 29)) - 7;
              return list;
            };
            std::int64_t step = 0;
            for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
              rank.epoch = static_cast<std::size_t>(epoch);
              for (int batch = 0; batch < 3; ++batch) {
                rank.batch(0, values(2 + (batch + group.rank()) % 2));
                if (++step % rows_every == 0) rank.store.meet({BoundaryKind::kTrainStep, Stage::kTrain, epoch, step}, {});
              }
              rank.store.begin_stage(Stage::kValidate);
              for (int batch = 0; batch < 2; ++batch) rank.batch(1, values(3 - group.rank() % 2));
              rank.store.meet({BoundaryKind::kEpochReached, Stage::kValidate, epoch, step}, {});
              check(1, rank.store.meet({BoundaryKind::kEpochEnd, Stage::kValidate, epoch, step}, {}));
              rank.store.end_stage();
              rank.store.meet({BoundaryKind::kEpochReached, Stage::kTrain, epoch, step}, {});
              check(0, rank.store.meet({BoundaryKind::kEpochEnd, Stage::kTrain, epoch, step}, {}));
              rank.store.reset_epoch();
            }
          });
          rethrow_first(result);
          CHECK_FALSE(result.hung);
        }
      }
    }
  }
}

TEST_CASE("what is taken in between the two boundaries of an epoch's end counts, also where it is as much as before") {
  testing::SimulatedRanks simulation;
  rethrow_first(simulation.run(2, 3, [](ControlGroup& group) {
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    rank.batch({1, 2, 30}, {.on_step = false, .on_epoch = true});
    rank.meet(BoundaryKind::kEpochReached);
    if (group.rank() == 1) {
      rank.median.reset();
      rank.median.update(at::tensor({40.0, 50.0, 60.0}, at::kDouble), {});
    }
    CHECK(rank.meet(BoundaryKind::kEpochEnd).logger_row.at("median") == 30);  // of 1, 2, 30, 40, 50, 60
  }));
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
    CHECK_THROWS_WITH(std::rethrow_exception(error),
                      Catch::Matchers::Contains("growing") && Catch::Matchers::Contains("metric_objects.h:") &&
                          Catch::Matchers::Contains("computes 2 values") && Catch::Matchers::Contains("0 of an empty one"));
  }
  CHECK_FALSE(result.hung);
}

TEST_CASE("metric objects of one name that differ by rank end all ranks with both places") {
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
                          Catch::Matchers::Contains("differs by rank: 2 numbers, 0 lists of rows and 1 values on rank 0 "
                                                    "(metric_objects.h:") &&
                              Catch::Matchers::Contains("2 values on rank 1"));
      }
    }
    CHECK_FALSE(result.hung);
  }
}

TEST_CASE(
    "a snapshot holds what a metric object has seen before its first log, and what all ranks have, where compute() sees it") {
  testing::SimulatedRanks simulation;
  std::array<MetricSnapshot, 2> before;
  std::array<MetricSnapshot, 2> after;
  const LogOptions epoch{.on_step = false, .on_epoch = true};
  rethrow_first(simulation.run(2, 3, [&](ControlGroup& group) {
    const auto own = static_cast<std::size_t>(group.rank());
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    rank.median.update(at::tensor({1.0 + 10 * group.rank()}, at::kDouble), {});
    before[own] = rank.store.save();
    rank.median.update(at::tensor({2.0 + 10 * group.rank(), 3.0}, at::kDouble), {});
    rank.store.enter(Hook::kTrainingStep);
    rank.store.log("median", rank.median, epoch, kHere);
    rank.meet(BoundaryKind::kEpochReached);
    CHECK(rank.median.compute().item() == 3);  // of 1, 2, 3, 3, 11, 12
    after[own] = rank.store.save();
  }));
  rethrow_first(simulation.run(2, 4, [&](ControlGroup& group) {
    const auto own = static_cast<std::size_t>(group.rank());
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    rank.median.update(at::tensor({77.0}, at::kDouble), {});  // in a hook that a resumed run runs again
    rank.store.restore({before[own]});
    CHECK(rank.median.compute().item() == 1 + 10 * group.rank());
    rank.store.restore({after[own]});
    CHECK(rank.median.compute().item() == 3);
    CHECK(rank.meet(BoundaryKind::kEpochEnd).logger_row == MetricMap{{"median", 3}});
    rank.store.reset_epoch();
    CHECK(std::isnan(rank.median.compute().item()));
  }));
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

TEST_CASE("a metric object that leaves the run and comes back goes on being logged") {
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

TEST_CASE("one rank in place of two goes on with the step that was logged last, and does not mix it with an older one") {
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
