#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "distributed/numbers_keys.h"
#include "distributed/rank_run.h"
#include "support/csv_table.h"

namespace levin::test {

/// The samples of the batches of one rank.
using RankBatches = std::vector<std::vector<double>>;

/// How samples come to ranks: in turn, and in batches.
inline std::vector<RankBatches> divide(int samples, int ranks, int batch_size) {
  std::vector<RankBatches> by_rank(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankBatches& batches = by_rank[static_cast<std::size_t>(rank)];
    for (int index = rank; index < samples; index += ranks) {
      if (batches.empty() || static_cast<int>(batches.back().size()) == batch_size) batches.emplace_back();
      batches.back().push_back(sample(index));
    }
  }
  return by_rank;
}

/// The expected results of one key that ranks log, computed only from lists of what each batch adds.
template <class Key, class Part>
class RanksOracle {
 public:
  using Parts = std::vector<Part>;
  using Combined = std::function<double(const Parts&)>;
  RanksOracle(Key key, std::vector<Parts> by_rank, Combined combine)
      : key_(std::move(key)), by_rank_(std::move(by_rank)), combine_(std::move(combine)) {}

  /// What rank 0 writes of an epoch; unset when no rank has a batch.
  std::optional<double> epoch() const {
    if (key_.rank_zero_only) return epoch_of(0);
    if (key_.sync_dist == false) return of_lowest([&](std::size_t rank) { return epoch_of(rank); });
    Parts all;
    for (const Parts& parts : by_rank_) all.insert(all.end(), parts.begin(), parts.end());
    return of(all);
  }
  std::optional<double> epoch_of(std::size_t rank) const { return of(by_rank_[rank]); }
  /// What rank 0 writes in the row of a step: of each rank the last batch of those since the row before.
  std::optional<double> step(std::size_t step, std::size_t steps_since = 1) const {
    const auto of_rank = [&](std::size_t rank) { return step_of(rank, step, steps_since); };
    if (key_.rank_zero_only) return of_rank(0);
    if (key_.sync_dist != true) return of_lowest(of_rank);
    Parts all;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (const Part& part : parts_of(rank, step, steps_since)) all.push_back(part);
    }
    return of(all);
  }
  std::optional<double> step_of(std::size_t rank, std::size_t step, std::size_t steps_since = 1) const {
    return of(parts_of(rank, step, steps_since));
  }
  /// What one rank sees at the end.
  std::optional<double> seen_by(std::size_t rank) const { return key_.sync_dist == false ? epoch_of(rank) : epoch(); }

 private:
  template <class Value>
  std::optional<double> of_lowest(Value value) const {
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (const auto found = value(rank)) return found;
    }
    return std::nullopt;
  }
  /// One or none.
  Parts parts_of(std::size_t rank, std::size_t step, std::size_t steps_since) const {
    const Parts& parts = by_rank_[rank];
    const std::size_t last = std::min(step + 1, parts.size());  // and one
    return last + steps_since > step + 1 ? Parts{parts[last - 1]} : Parts();
  }
  std::optional<double> of(const Parts& parts) const { return parts.empty() ? std::nullopt : std::optional(combine_(parts)); }

  Key key_;
  std::vector<Parts> by_rank_;
  Combined combine_;
};

/// What a batch adds to a metric.
struct NumbersEntry {
  double value;
  double weight;
};

inline NumbersEntry entry_of(const NumbersKey& key, std::size_t rank, const std::vector<double>& batch) {
  const auto size = static_cast<double>(batch.size());
  const double weight = key.batch_size ? static_cast<double>(*key.batch_size) : size;
  const double sum = std::accumulate(batch.begin(), batch.end(), 0.0);
  const double smallest = *std::min_element(batch.begin(), batch.end());
  switch (key.statistic) {
    case Statistic::kMean:
      return {sum / size, weight};
    case Statistic::kSum:
      return {sum, weight};
    case Statistic::kMin:
      return {smallest, weight};
    case Statistic::kMax:
      return {*std::max_element(batch.begin(), batch.end()), weight};
    case Statistic::kCount:
      return {size, weight};
    case Statistic::kFirst:
      return {batch.front(), weight};
    case Statistic::kNotANumber:
      return {rank % 2 == 1 ? std::numeric_limits<double>::quiet_NaN() : smallest, weight};
  }
  return {};
}

inline double combined(Combine reduce, const std::vector<NumbersEntry>& entries) {
  double sum = 0, weighted = 0, weights = 0;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (const auto& [value, weight] : entries) {
    if (std::isnan(value)) return value;
    sum += value;
    weighted += value * weight;
    weights += weight;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  if (reduce == Combine::kSum) return sum;
  if (reduce == Combine::kMin) return smallest;
  return reduce == Combine::kMax ? largest : weighted / weights;
}

struct NumbersOracle : RanksOracle<NumbersKey, NumbersEntry> {
  NumbersOracle(const NumbersKey& key, const std::vector<RankBatches>& by_rank)
      : RanksOracle(key, entries_of(key, by_rank),
                    [reduce = key.reduce](const Parts& parts) { return combined(reduce, parts); }) {}

  static std::vector<Parts> entries_of(const NumbersKey& key, const std::vector<RankBatches>& by_rank) {
    std::vector<Parts> entries(by_rank.size());
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      for (const std::vector<double>& batch : by_rank[rank]) entries[rank].push_back(entry_of(key, rank, batch));
    }
    return entries;
  }
};

// Comparing with it.

/// Equal as numbers that were computed in double precision, in any order; NaN equals NaN.
inline bool same(double actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == Approx(expected).epsilon(1e-12);
}

/// What a rank has reported under a name, or has not.
inline void check_value(const RankRun& run, std::size_t rank, const std::string& name, const std::optional<double>& expected) {
  INFO(name << " on rank " << rank);
  REQUIRE(run.has(rank, name) == expected.has_value());
  if (!expected) return;
  INFO("is " << run.number(rank, name) << ", should be " << *expected);
  CHECK(same(run.number(rank, name), *expected));
}

/// The values of a column of metrics.csv, without those that are unset.
inline void check_column(const CsvTable& table, const std::string& name, const std::vector<std::optional<double>>& expected) {
  INFO("column " << name);
  std::vector<double> present;
  for (const auto& value : expected) {
    if (value) present.push_back(*value);
  }
  const std::vector<double> values = table.has(name) ? table.values(name) : std::vector<double>();
  REQUIRE(values.size() == present.size());
  for (std::size_t row = 0; row < values.size(); ++row) {
    INFO("row " << row << " is " << values[row] << ", should be " << present[row]);
    CHECK(same(values[row], present[row]));
  }
}

}  // namespace levin::test
