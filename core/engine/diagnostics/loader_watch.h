#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "levin/core/base/process.h"

namespace levin {

/// Measures how long training waits for its batches, on one rank. Waits for other ranks in a step count as work: only those
/// whose own loader is slow find it slow.
class LoaderWatch {
 public:
  /// `seconds`: the clock.
  explicit LoaderWatch(std::function<double()> seconds = steady_seconds) : seconds_(std::move(seconds)) {}

  /// The first batch that is read then does not count, since nobody could read ahead of it.
  void begin_epoch() { worked_since_.reset(); }
  void begin_reading();
  void end_reading();

  /// Reading took more than a second in all, and more than a fifth of the time.
  bool is_bottleneck() const;
  /// For a person. `workers`: as of BatchLoader::num_workers(); `cores`: of this host, which as many `ranks` share.
  std::string advice(const std::optional<int>& workers, int cores, int ranks) const;

 private:
  std::function<double()> seconds_;
  double reading_since_ = 0;
  std::optional<double> worked_since_;
  bool counts_ = false;
  double waited_ = 0;  ///< seconds
  double worked_ = 0;
  std::int64_t batches_ = 0;
};

}  // namespace levin
