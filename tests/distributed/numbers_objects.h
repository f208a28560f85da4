#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace levin::test {

/// What a metric object keeps of its samples.
enum class Keeps : std::uint8_t { kNumbers, kSamples, kBoth };

/// One metric object that numbers_program logs in every step, and that numbers_objects_test computes from the samples.
struct NumbersObject {
  std::string name;
  Keeps keeps = Keeps::kSamples;
  std::optional<bool> on_step = std::nullopt;
  std::optional<bool> on_epoch = std::nullopt;
  std::optional<bool> sync_dist = std::nullopt;
  bool rank_zero_only = false;
  bool per_rank = false;

  bool is_on_step(bool trains) const { return on_step.value_or(trains); }
  bool is_on_epoch(bool trains) const { return on_epoch.value_or(!trains); }
  bool is_fork(bool trains) const { return is_on_step(trains) && is_on_epoch(trains); }
};

/// Several that keep samples are on their way at each boundary.
inline std::vector<NumbersObject> numbers_objects() {
  return {
      {.name = "plain"},
      {.name = "steps", .on_step = true, .on_epoch = false},
      {.name = "epochs", .on_step = false, .on_epoch = true},
      {.name = "counts", .keeps = Keeps::kNumbers, .on_step = true, .on_epoch = true},
      {.name = "fork", .on_step = true, .on_epoch = true},
      {.name = "both", .keeps = Keeps::kBoth, .on_step = true, .on_epoch = true},
      {.name = "synced", .on_step = true, .on_epoch = true, .sync_dist = true},
      {.name = "local", .keeps = Keeps::kBoth, .on_step = true, .on_epoch = true, .sync_dist = false},
      {.name = "rank_zero", .on_step = true, .on_epoch = true, .rank_zero_only = true},
      {.name = "each", .on_step = true, .on_epoch = true, .per_rank = true},
      {.name = "epochs_again", .on_step = false, .on_epoch = true},
  };
}

}  // namespace levin::test
