#pragma once

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "levin/core/state/callback_section.h"
#include "levin/core/state/evaluation_section.h"
#include "levin/core/state/gradient_section.h"
#include "levin/core/state/kept_section.h"
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

/// All state of a run, section by section, in the order in which sections are saved, read and restored. To add one, write a
/// class like WishSection and add its name here. The section defines its state on each rank and what a side computation must
/// restore (section.h); state_scope.cpp lists the side computations.
///
/// A checkpoint (checkpoint.h) has what the sections list above their classes, and
///
///     levin_version, resume_format               the levin that wrote it, and the format of the state to resume from
///     ranks                                      by rank: the sections' state on each rank
///     queued_job                                 of a job that returns to its scheduler's queue: fit_continuation.cpp
///
/// With weights only it has the sections that are is_with_weights().
class RunSections {
 public:
  using All = std::tuple<PositionSection, WeightSection, CallbackSection, DataSection, ParameterSection, ModeSection,
                         SchedulerSection, ScalerSection, MetricSection, MetricObjectSection, WishSection, EvaluationSection,
                         LoggerRowSection, GradientSection, KeptSection, ReadingSection, RandomSection>;
  static constexpr std::size_t kCount = std::tuple_size_v<All>;

  template <class S>
  S& get() {
    return std::get<S>(all_);
  }
  std::array<Section*, kCount> list();

  /// A place begins.
  void begin(TrainerState& run, Place place);
  /// Ranks: all. Saves the state that they share, without what on_save_checkpoint() adds. `weights_only`: only the sections
  /// that are part of such a checkpoint.
  void save(TrainerState& run, Checkpoint& checkpoint, bool weights_only);
  /// The state of this rank.
  RankState save_own(TrainerState& run);
  /// Reads what all ranks have alike and what this rank has for itself, when optimizers are made.
  void load(TrainerState& run, const Checkpoint& checkpoint);
  void load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step);
  void restore(TrainerState& run, Moment moment);
  /// Drops the loaded state.
  void forget();

 private:
  All all_;
};

/// A place begins: see Place.
void begin_place(TrainerState& run, Place place);

/// Ranks: all. The state of each rank, by rank, on rank 0, which writes the file; empty on others.
std::vector<RankState> gather_rank_states(TrainerState& run);
void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint);
/// Ranks: all, when a signal ends them. Gathers every rank's state on rank 0, for checkpoints that it saves afterwards.
void keep_rank_states(TrainerState& run);

}  // namespace levin
