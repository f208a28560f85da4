#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <exception>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "levin/core/metric.h"
#include "levin/core/protocol/metric_store.h"
#include "support/simulated_ranks.h"

// Metric objects and a store of one rank that has them.

namespace levin::test {

inline const CallSite kHere{levin::SourceLocation::current()};

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

/// Stores all values.
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

/// Of the first values of an epoch none is known before.
class Growing final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor&) override { values_.append(values); }
  MetricValue compute() const override { return values_.tensor(); }

 private:
  MetricSamples values_ = add_samples("values", at::kDouble);
};

inline void rethrow_first(const testing::SimulationResult& result) {
  for (const auto& error : result.errors) {
    if (error) std::rethrow_exception(error);
  }
}

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

inline MetricMap expected_of(std::vector<double> values, const std::string& suffix = "") {
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

inline void check_rows(const MetricMap& row, const MetricMap& expected) {
  CHECK(row.names() == expected.names());
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(row.at(name) == Approx(value).epsilon(1e-12));
  }
}

}  // namespace levin::test
