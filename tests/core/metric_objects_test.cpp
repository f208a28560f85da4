#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/metric.h"
#include "levin/core/protocol/metric_store.h"
#include "support/simulated_ranks.h"

using namespace levin;

namespace {

const CallSite kHere{levin::SourceLocation::current()};

class Mean final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor& weights) override {
    sum_.take(values.mul(weights).sum());
    weight_.take(weights.sum());
  }
  MetricValue compute() const override { return sum_.value() / weight_.value(); }

 private:
  MetricNumbers sum_ = add_numbers("sum");
  MetricNumbers weight_ = add_numbers("weight");
};

/// The smallest and the largest value.
class Range final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor&) override {
    least_.take(values.min());
    most_.take(values.max());
  }
  MetricValue compute() const override { return std::vector<double>{least_.value(), most_.value()}; }

 private:
  MetricNumbers least_ = add_numbers("least", {}, Reduce::kMin);
  MetricNumbers most_ = add_numbers("most", {}, Reduce::kMax);
};

/// Keeps all values.
class Median final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor&) override { values_.append(values); }
  MetricValue compute() const override {
    const at::Tensor values = values_.tensor();
    return values.numel() == 0 ? std::nan("") : values.median().item().toDouble();
  }

 private:
  MetricSamples values_ = add_samples("values", at::kDouble);
};

/// Mean and variance, which are merged as Chan et al. do.
class Variance final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor&) override {
    const at::Tensor doubles = values.to(at::kDouble);
    const at::Tensor mean = doubles.mean();
    take_numbers(at::stack({at::full({}, doubles.numel(), at::kDouble), mean, doubles.sub(mean).square().sum()}));
  }
  MetricValue compute() const override { return moments_.values()[2] / moments_.values()[0]; }

 protected:
  void merge_numbers(std::span<double> total, std::span<const double> more) const override {
    const double count = total[0] + more[0];
    const double distance = more[1] - total[1];
    total[2] += more[2] + distance * distance * total[0] * more[0] / count;
    total[1] += distance * more[0] / count;
    total[0] = count;
  }

 private:
  MetricNumbers moments_ = add_numbers("moments", {3});
};

/// A run's metrics on one rank.
struct RankMetrics {
  explicit RankMetrics(ControlGroup& group) : store(group, {}) {
    mean.set_name("mean");
    range.set_name("range");
    median.set_name("median");
    variance.set_name("variance");
    store.set_objects({&mean, &range, &median, &variance});
  }

  void batch(const std::vector<double>& values, const LogOptions& options = {}, Hook hook = Hook::kTrainingStep) {
    store.begin_batch({.batch_size = static_cast<std::int64_t>(values.size())});
    store.enter(hook);
    const at::Tensor tensor = at::tensor(values, at::kDouble);
    for (Metric* metric : std::initializer_list<Metric*>{&mean, &range, &median, &variance}) {
      metric->update(tensor, at::ones_like(tensor));
      store.log(metric->name(), *metric, options, kHere);
    }
    store.end_batch();
  }
  BoundaryOutcome meet(BoundaryKind kind, Stage stage = Stage::kTrain) { return store.meet({kind, stage, 0, 0}, {}); }

  Mean mean;
  Range range;
  Median median;
  Variance variance;
  MetricStore store;
};

MetricMap expected_of(std::vector<double> values, const std::string& suffix = "") {
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  std::sort(values.begin(), values.end());
  return {{"mean" + suffix, mean},
          {"range_0" + suffix, values.front()},
          {"range_1" + suffix, values.back()},
          {"median" + suffix, values[(values.size() - 1) / 2]},
          {"variance" + suffix, squares / count}};
}

void check_rows(const MetricMap& row, const MetricMap& expected) {
  CHECK(row.names() == expected.names());
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(row.at(name) == Approx(value).epsilon(1e-12));
  }
}

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
    for (const auto& error : result.errors) {
      if (error) std::rethrow_exception(error);
    }
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
  for (const auto& error : result.errors) {
    if (error) std::rethrow_exception(error);
  }
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
  for (const auto& error : local.errors) {
    if (error) std::rethrow_exception(error);
  }
}

TEST_CASE("an epoch of metric objects goes on from a snapshot, on one rank in place of two as well") {
  std::vector<MetricSnapshot> saved;
  for (const double first : {1.0, 4.0}) {
    SingleProcessGroup group;
    RankMetrics rank(group);
    rank.store.begin_stage(Stage::kTrain);
    rank.batch({first, first + 1}, {.on_epoch = true});
    rank.store.mark();
    rank.batch({100}, {.on_epoch = true});
    saved.push_back(rank.store.save(MetricMoment::kMark));
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
