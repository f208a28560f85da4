#pragma once

#include "levin/core/train/epoch_loop.h"

namespace levin {

/// Training: the sanity check, epochs, and when to stop. Decisions use what all ranks know, so all ranks decide the same.
/// LoopPosition says at any time what comes next.
class FitLoop {
 public:
  FitLoop(TrainerState& run, const PrecisionPolicy& precision, DataSource& source);
  ~FitLoop() { run_.visit_training_data = nullptr; }

  void run(const ResumePoint& resume);

 private:
  void train_epochs(ResumePoint resume);
  /// Training is over: from here on the module has the weights to evaluate.
  void hand_over();
  void reload_if_due();
  /// Calls `ask` as in the epoch in which the resumed run asked for its loaders: their data may depend on it.
  void ask_for_loaders(const std::function<void()>& ask);
  void agree_on_epoch();
  void warn_of_long_interval() const;
  void announce() const;
  bool may_train() const;
  /// Ranks: all, when all know that none has a batch.
  [[noreturn]] void throw_without_batches() const;
  /// ", though its size() says 4"; empty without a size above 0.
  std::string claim_of_loader() const;
  /// True when training is over; Progress::end_reason then says why.
  bool done();

  TrainerState& run_;
  std::int64_t batches_before_;  ///< Progress::total_batch_idx when it began
  TrainingData data_;
  FitValidation validation_;
  EpochPlan plan_;
  EpochLoop epoch_;
};

}  // namespace levin
