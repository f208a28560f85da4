#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "levin/core/base/shared_interval.h"
#include "levin/core/engine/loops/data_source.h"
#include "levin/core/engine/loops/evaluation_loop.h"
#include "levin/core/engine/parts/epoch_plan.h"
#include "levin/core/engine/state/trainer_state.h"

namespace levin {

/// Validation inside fit(): the sanity check before it, and when and how validation runs during training.
class FitValidation {
 public:
  FitValidation(TrainerState& run, const Precision& precision, DataSource& source);

  /// Asks for the loaders, anew when called again.
  void set_up();
  /// A few batches before training. Leaves no trace: metrics, random numbers and counters are afterwards what they were.
  void sanity_check();
  /// Null when there is no validation at all.
  const EvaluationLoop* loop() const { return loop_.get(); }

  /// This rank's batches, for agree(): -1 when not known, 0 for none.
  std::int64_t rank_batches() const;
  /// Before an epoch. `any_batches`: some rank has validation batches; `epoch_batches`: of training, when known.
  void agree(bool any_batches, const std::optional<std::int64_t>& epoch_batches);
  /// Training starts.
  void start_clock();

  /// Ranks: all, after each iteration. Runs what is due. `stopping`: training ends with this iteration.
  void run_if_due(const Iteration& iteration, bool stopping);
  /// Runs it, from its beginning.
  void run(const Iteration& iteration);
  /// Runs what a run that was interrupted in on_validation_end has left: the hooks after the first `hooks_done`.
  void finish(int hooks_done);

 private:
  bool due(const Iteration& iteration, bool stopping);
  /// Ranks: all, in each iteration of an epoch that validates. The time between validations has passed, by rank 0's clock.
  bool time_passed();

  TrainerState& run_;
  const Precision& precision_;
  DataSource& source_;
  HookRunner& hooks_;
  std::unique_ptr<EvaluationLoop> loop_;
  ValidationSchedule schedule_;
  std::optional<SharedInterval> interval_;  ///< when validation goes by time
};

}  // namespace levin
