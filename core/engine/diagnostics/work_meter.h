#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "levin/core/base/process.h"
#include "levin/core/protocol/boundary.h"

namespace levin {

/// What a rank's own time in training steps goes to.
enum class Work : std::uint8_t {
  kLoader,    ///< waits for the next batch
  kForward,   ///< training_step
  kBackward,  ///< without the waits for other ranks in it
  kHooks,     ///< all else in a step: hooks, the optimizer, logging
  kNone       ///< not measured
};
inline constexpr std::size_t kKindsOfWork = 4;

/// Seconds by kind of work.
using WorkSeconds = std::array<double, kKindsOfWork>;

/// Measures this rank's own work, which is what it would do in the same time alone: waits for other ranks do not count.
/// Threading: training's thread.
class WorkMeter {
 public:
  /// `seconds`: the clock.
  explicit WorkMeter(std::function<double()> seconds = steady_seconds) : seconds_(std::move(seconds)) {}

  /// A fit begins. Alone, nothing is measured.
  void begin(bool alone) {
    measures_ = !alone;
    work_ = Work::kNone;
    spent_ = {};
  }
  /// From here on the time is of this kind. Gives the kind until now.
  Work enter(Work work) {
    if (!measures_) return Work::kNone;
    const double now = seconds_();
    if (work_ != Work::kNone) spent_[static_cast<std::size_t>(work_)] += now - since_;
    since_ = now;
    return std::exchange(work_, work);
  }
  /// In the time of this kind, so many seconds were spent on waiting for other ranks.
  void waited(double seconds) {
    if (measures_ && work_ != Work::kNone) spent_[static_cast<std::size_t>(work_)] -= seconds;
  }
  /// Nanoseconds by kind since the last call, as ranks tell one another.
  BoundaryPayload take() {
    enter(work_);
    BoundaryPayload told{};
    for (std::size_t kind = 0; kind < kKindsOfWork; ++kind) told[kind] = static_cast<std::int64_t>(1e9 * spent_[kind]);
    spent_ = {};
    return told;
  }

 private:
  std::function<double()> seconds_;
  bool measures_ = false;
  Work work_ = Work::kNone;
  double since_ = 0;
  WorkSeconds spent_{};
};

/// While it lives, this rank does work of one kind.
class [[nodiscard]] WorkScope {
 public:
  WorkScope(WorkMeter& meter, Work work) : meter_(meter), outer_(meter.enter(work)) {}
  ~WorkScope() { meter_.enter(outer_); }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  WorkMeter& meter_;
  Work outer_;
};

}  // namespace levin
