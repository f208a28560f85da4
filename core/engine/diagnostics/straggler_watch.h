#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/engine/diagnostics/work_meter.h"

namespace levin {

/// A rank for which all others wait.
struct Straggler {
  int rank = 0;
  Work kind = Work::kHooks;  ///< where most of the difference is
  double own = 0;            ///< seconds of its own work a step
  double others = 0;         ///< the median of the other ranks'
  double own_of_kind = 0;    ///< the same of that kind
  double others_of_kind = 0;
  std::int64_t since = 0;  ///< the step after which it has been slow
  double own_before = 0;   ///< what it took until then; 0: there was nothing before

  /// For a person. `host`: of the rank.
  std::string text(const std::string& host) const;
};

/// Compares the own work of ranks from one row of training steps to the next. A rank is a straggler when its work took more
/// than 1.5 times the median of the others' in five of these spans one after another, and two seconds more in all: one that a
/// busy machine has held up now and then is none. All ranks come to the same.
class StragglerWatch {
 public:
  /// Gives a straggler, each rank once. The first span does not count: memory is new then. `by_rank`: as WorkMeter::take()
  /// gives it; `step`: steps done.
  std::optional<Straggler> look(const std::vector<BoundaryPayload>& by_rank, std::int64_t step);

 private:
  using Ranks = std::vector<WorkSeconds>;

  std::int64_t last_step_ = -1;  ///< -1: before the first span
  // Spans one after another in which the same rank was slow.
  std::size_t slow_rank_ = 0;
  int slow_spans_ = 0;
  std::int64_t slow_since_ = 0;
  Ranks slow_;
  // Those before, since the fit began.
  std::int64_t steps_before_ = 0;
  Ranks before_;
  std::set<std::size_t> told_;
};

}  // namespace levin
