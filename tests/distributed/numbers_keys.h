#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace levin::test {

/// The value that is logged for a batch of numbers.
enum class Statistic : std::uint8_t { kMean, kSum, kMin, kMax, kCount, kFirst, kNotANumber };
/// The type that log() gets.
enum class Form : std::uint8_t { kDouble, kScalarTensor, kOneElement, kFloat, kHalf, kBFloat16, kInt64, kNumber };
enum class Combine : std::uint8_t { kMean, kSum, kMin, kMax };

/// One metric that numbers_program logs in every step, and that numbers_test computes from the samples.
struct NumbersKey {
  std::string name;
  Statistic statistic = Statistic::kMean;
  Form form = Form::kScalarTensor;
  bool on_step = false;
  Combine reduce = Combine::kMean;
  std::optional<bool> sync_dist = std::nullopt;
  bool rank_zero_only = false;
  bool per_rank = false;
  std::optional<std::int64_t> batch_size = std::nullopt;
};

/// All are logged on_epoch, and those of `on_step` as forks.
inline std::vector<NumbersKey> numbers_keys() {
  using S = Statistic;
  using C = Combine;
  return {
      {.name = "mean"},
      {.name = "mean_synced", .sync_dist = true},
      {.name = "mean_local", .sync_dist = false},
      {.name = "sum", .statistic = S::kSum, .reduce = C::kSum},
      {.name = "sum_local", .statistic = S::kSum, .reduce = C::kSum, .sync_dist = false},
      {.name = "min", .statistic = S::kMin, .reduce = C::kMin},
      {.name = "max", .statistic = S::kMax, .reduce = C::kMax},
      {.name = "max_local", .statistic = S::kMax, .reduce = C::kMax, .sync_dist = false},
      {.name = "mean_of_batches", .batch_size = 1},
      {.name = "rank_zero", .rank_zero_only = true},
      {.name = "each", .per_rank = true},
      {.name = "samples", .statistic = S::kCount, .form = Form::kInt64, .reduce = C::kSum},
      {.name = "count", .statistic = S::kCount, .form = Form::kNumber, .reduce = C::kSum},
      {.name = "double", .form = Form::kDouble},
      {.name = "one_element", .form = Form::kOneElement},
      {.name = "float", .statistic = S::kFirst, .form = Form::kFloat},
      {.name = "half", .statistic = S::kFirst, .form = Form::kHalf},
      {.name = "bfloat16", .statistic = S::kFirst, .form = Form::kBFloat16},
      {.name = "nan", .statistic = S::kNotANumber},
      {.name = "nan_min", .statistic = S::kNotANumber, .reduce = C::kMin},
      {.name = "nan_each", .statistic = S::kNotANumber, .per_rank = true},
      {.name = "fork", .on_step = true},
      {.name = "fork_synced", .on_step = true, .sync_dist = true},
      {.name = "fork_local", .on_step = true, .sync_dist = false},
      {.name = "fork_rank_zero", .on_step = true, .sync_dist = true, .rank_zero_only = true},
      {.name = "fork_each", .on_step = true, .sync_dist = true, .per_rank = true},
      {.name = "fork_sum", .statistic = S::kSum, .on_step = true, .reduce = C::kSum, .sync_dist = true},
      {.name = "fork_min", .statistic = S::kMin, .on_step = true, .reduce = C::kMin, .sync_dist = true},
      {.name = "fork_max", .statistic = S::kMax, .on_step = true, .reduce = C::kMax, .sync_dist = true},
      {.name = "fork_weighted", .on_step = true, .sync_dist = true, .batch_size = 3},
  };
}

/// Sample i of the data. Small whole numbers, so that every type of tensor holds them.
inline double sample(int index) { return static_cast<double>((index * 7) % 31) + (index % 2 == 0 ? 0.5 : 0.0); }

}  // namespace levin::test
