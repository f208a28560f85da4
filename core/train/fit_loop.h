#pragma once

#include "levin/core/train/epoch_loop.h"

namespace levin {

/// Training: the sanity check, epochs, and when to stop, decided from what all ranks know, so that they decide alike.
/// LoopPosition says at any time what comes next.
class FitLoop {
 public:
  FitLoop(TrainerState& run, const PrecisionPolicy& precision, DataSource& source);
  ~FitLoop() { run_.visit_training_data = nullptr; }

  void run(const ResumePoint& resume);

 private:
  void train_epochs(ResumePoint resume);
  /// Training is over: whoever has the module from here on has the weights to evaluate.
  void hand_over();
  void reload_if_due();
  /// As in the epoch in which the run that this one resumes asked for them: what they hold may depend on it.
  void ask_for_loaders(const std::function<void()>& ask);
  void agree_on_epoch();
  void warn_of_long_interval() const;
  void announce() const;
  bool may_train() const;
  /// Ranks: all, where all know that none has a batch.
  [[noreturn]] void throw_without_batches() const;
  /// ", though its size() says 4"; empty where that says nothing of batches.
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
