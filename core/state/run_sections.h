#pragma once

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "levin/core/state/callback_section.h"
#include "levin/core/state/evaluation_section.h"
#include "levin/core/state/gradient_section.h"
#include "levin/core/state/logger_row_section.h"
#include "levin/core/state/metric_section.h"
#include "levin/core/state/mode_section.h"
#include "levin/core/state/parameter_section.h"
#include "levin/core/state/position_section.h"
#include "levin/core/state/random_section.h"
#include "levin/core/state/scheduler_section.h"
#include "levin/core/state/weight_section.h"
#include "levin/core/state/wish_section.h"

namespace levin {

/// All state of a run, section by section, in the order in which they are saved, read and put back. To add one: a class like
/// WishSection, and its name here. What it has for itself on each rank, and what a side computation must put back, it says
/// itself (section.h); state_scope.cpp lists the side computations.
///
/// A checkpoint (checkpoint.h) has what the sections draw above their classes, and
///
///     levin_version, resume_format               who wrote it, and how it says what a run resumes from
///     ranks                                      by rank: what sections have for each rank
///     queued_job                                 of a job that goes back into its scheduler's queue: fit_continuation.cpp
///
/// With weights only it has what is_with_weights().
class RunSections {
 public:
  using All = std::tuple<PositionSection, WeightSection, CallbackSection, DataSection, ParameterSection, ModeSection,
                         SchedulerSection, ScalerSection, MetricSection, MetricObjectSection, WishSection, EvaluationSection,
                         LoggerRowSection, GradientSection, ReadingSection, RandomSection>;
  static constexpr std::size_t kCount = std::tuple_size_v<All>;

  template <class S>
  S& get() {
    return std::get<S>(all_);
  }
  std::array<Section*, kCount> list();

  /// A place begins.
  void begin(TrainerState& run, Place place);
  /// Ranks: all. What they have alike, without what on_save_checkpoint() adds. `weights_only`: of the sections that are part of
  /// it.
  void save(TrainerState& run, Checkpoint& checkpoint, bool weights_only);
  /// What this rank has for itself.
  RankState save_own(TrainerState& run);
  /// Reads a checkpoint, and at LoadStep::kOptimizers what this rank has for itself, too.
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step);
  void restore(TrainerState& run, Moment moment);
  /// Drops what was read.
  void forget();

 private:
  All all_;
};

}  // namespace levin
