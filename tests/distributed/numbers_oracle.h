#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "distributed/numbers_keys.h"

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

/// The expected results of numbers_program, computed only from lists of all values.
class NumbersOracle {
 public:
  NumbersOracle(NumbersKey key, std::vector<RankBatches> by_rank) : key_(std::move(key)), by_rank_(std::move(by_rank)) {}

  /// Of all ranks; unset when no rank has a batch.
  std::optional<double> epoch() const {
    if (key_.rank_zero_only) return epoch_of(0);
    if (key_.sync_dist == false) return of_lowest([&](std::size_t rank) { return epoch_of(rank); });
    std::vector<Entry> entries;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (std::size_t step = 0; step < by_rank_[rank].size(); ++step) entries.push_back(entry(rank, step));
    }
    return combined(entries);
  }
  std::optional<double> epoch_of(std::size_t rank) const {
    std::vector<Entry> entries;
    for (std::size_t step = 0; step < by_rank_[rank].size(); ++step) entries.push_back(entry(rank, step));
    return combined(entries);
  }
  /// What rank 0 writes for a step.
  std::optional<double> step(std::size_t step) const {
    if (key_.rank_zero_only) return step_of(0, step);
    if (key_.sync_dist != true) return of_lowest([&](std::size_t rank) { return step_of(rank, step); });
    std::vector<Entry> entries;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (step < by_rank_[rank].size()) entries.push_back(entry(rank, step));
    }
    return combined(entries);
  }
  std::optional<double> step_of(std::size_t rank, std::size_t step) const {
    if (step >= by_rank_[rank].size()) return std::nullopt;
    return entry(rank, step).value;
  }
  /// What one rank sees at the end.
  std::optional<double> seen_by(std::size_t rank) const { return key_.sync_dist == false ? epoch_of(rank) : epoch(); }

 private:
  struct Entry {
    double value;
    double weight;
  };

  template <class Value>
  std::optional<double> of_lowest(Value value) const {
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (const auto found = value(rank)) return found;
    }
    return std::nullopt;
  }

  Entry entry(std::size_t rank, std::size_t step) const {
    const std::vector<double>& batch = by_rank_[rank][step];
    const auto size = static_cast<double>(batch.size());
    const double weight = key_.batch_size ? static_cast<double>(*key_.batch_size) : size;
    const double sum = std::accumulate(batch.begin(), batch.end(), 0.0);
    const double smallest = *std::min_element(batch.begin(), batch.end());
    switch (key_.statistic) {
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

  std::optional<double> combined(const std::vector<Entry>& entries) const {
    if (entries.empty()) return std::nullopt;
    double sum = 0;
    double weighted = 0;
    double weights = 0;
    std::vector<double> values;
    for (const auto& [value, weight] : entries) {
      if (std::isnan(value)) return value;
      sum += value;
      weighted += value * weight;
      weights += weight;
      values.push_back(value);
    }
    switch (key_.reduce) {
      case Combine::kMean:
        return weighted / weights;
      case Combine::kSum:
        return sum;
      case Combine::kMin:
        return *std::min_element(values.begin(), values.end());
      case Combine::kMax:
        return *std::max_element(values.begin(), values.end());
    }
    return std::nullopt;
  }

  NumbersKey key_;
  std::vector<RankBatches> by_rank_;
};

}  // namespace levin::test
