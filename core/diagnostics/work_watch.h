#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/process.h"
#include "levin/core/protocol/frame.h"

namespace levin {

/// The kinds of a rank's own work in training steps.
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

/// Measures this rank's own work, without waits for other ranks. Threading: training's thread.
class WorkMeter {
 public:
  /// `seconds`: the clock.
  explicit WorkMeter(std::function<double()> seconds = steady_seconds) : seconds_(std::move(seconds)) {}

  /// Starts a fit. A single rank is not measured.
  void begin(bool alone) {
    measures_ = !alone;
    work_ = Work::kNone;
    spent_ = {};
    waits_ = 0;
  }
  /// Counts the time as this kind from here on. Returns the previous kind.
  Work enter(Work work) {
    if (!measures_) return Work::kNone;
    const double now = seconds_();
    if (work_ != Work::kNone) spent_[static_cast<std::size_t>(work_)] += now - since_;
    since_ = now;
    return std::exchange(work_, work);
  }
  /// Subtracts seconds of waiting for other ranks from this kind.
  void waited(double seconds) {
    if (!measures_ || work_ == Work::kNone) return;
    spent_[static_cast<std::size_t>(work_)] -= seconds;
    waits_ += seconds;
  }
  /// Nanoseconds by kind since the last call, and then those of waits, for the exchange between ranks.
  BoundaryPayload take() {
    enter(work_);
    BoundaryPayload payload{};
    for (std::size_t kind = 0; kind < kKindsOfWork; ++kind) payload[kind] = static_cast<std::int64_t>(1e9 * spent_[kind]);
    payload[kKindsOfWork] = static_cast<std::int64_t>(1e9 * waits_);
    spent_ = {};
    waits_ = 0;
    return payload;
  }

 private:
  std::function<double()> seconds_;
  bool measures_ = false;
  Work work_ = Work::kNone;
  double since_ = 0;
  WorkSeconds spent_{};
  double waits_ = 0;
};

/// Counts this rank's work as one kind during its lifetime.
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

/// Measures how long training waits for its batches, on one rank. Waits for other ranks in a step count as work: only ranks
/// with a slow loader report it.
class LoaderWatch {
 public:
  /// `seconds`: the clock.
  explicit LoaderWatch(std::function<double()> seconds = steady_seconds) : seconds_(std::move(seconds)) {}

  /// The first batch does not count, because no thread could read ahead of it.
  void begin_epoch() { worked_since_.reset(); }
  void begin_reading();
  void end_reading();

  /// True when reading took more than a second in all, and more than a fifth of the time.
  bool is_bottleneck() const;
  /// The advice. `workers`: as of BatchLoader::num_workers(); `cores`: of this host, shared by `ranks`.
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

/// A rank for which all others wait.
struct Straggler {
  int rank = 0;
  Work kind = Work::kHooks;  ///< the one with most of the difference
  double own = 0;            ///< seconds of its own work per step
  double others = 0;         ///< the median of the other ranks'
  double own_of_kind = 0;    ///< the same of that kind
  double others_of_kind = 0;
  std::int64_t since = 0;  ///< the last step before it was slow
  double own_before = 0;   ///< its time until then; 0: no earlier steps

  /// The message. `host`: of the rank.
  std::string text(const std::string& host) const;
};

/// Compares the own work of ranks from one row of training steps to the next. A rank is a straggler when its work took more
/// than 1.5 times the median of the others' in five consecutive spans, and two seconds more in all, which excludes occasional
/// delays by a busy machine. All ranks get the same result.
class StragglerWatch {
 public:
  /// Returns a straggler, each rank once. The first span does not count, because it allocates memory. `by_rank`: as
  /// WorkMeter::take() gives it; `step`: steps done.
  std::optional<Straggler> look(const std::vector<BoundaryPayload>& by_rank, std::int64_t step);

 private:
  using Ranks = std::vector<WorkSeconds>;

  std::int64_t last_step_ = -1;  ///< -1: before the first span
  // Consecutive spans in which the same rank was slow.
  std::size_t slow_rank_ = 0;
  int slow_spans_ = 0;
  std::int64_t slow_since_ = 0;
  Ranks slow_;
  // Earlier spans of the fit.
  std::int64_t steps_before_ = 0;
  Ranks before_;
  std::set<std::size_t> reported_;
};

}  // namespace levin
