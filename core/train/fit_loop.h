#pragma once

#include <utility>

#include "levin/core/step/optimizers.h"
#include "levin/core/train/epoch_loop.h"

namespace levin {

/// Training: the sanity check, epochs, and when to stop. Decisions use what all ranks know, so all ranks decide the same.
/// LoopPosition says at any time what comes next.
class FitLoop {
 public:
  FitLoop(TrainerState& run, const PrecisionPolicy& precision, DataSource& source);
  ~FitLoop() { run_.visit_training_data = nullptr; }

  /// All of training: begin(), iterations of all epochs, end().
  void run(const ResumePoint& resume);
  /// The sanity check, loaders, and the beginning of training. Ranks: all.
  void begin(const ResumePoint& resume);
  /// More epochs are to come: begin_epoch(), iterate(), end_epoch(), until this is false; then end().
  bool continues() const { return continues_; }
  EpochLoop& epoch() { return epoch_; }
  void begin_epoch() { epoch_.begin(std::exchange(resume_, {})); }
  /// Ends the epoch, and agrees on the next. Ranks: all.
  void end_epoch();
  /// The end of training: from here on the module has the weights to evaluate. Ranks: all.
  void end();

 private:
  void begin_training();
  /// Training is over: from here on the module has the weights to evaluate.
  void hand_over();
  /// Asks for loaders anew where that is due, and sets `continues_`. Ranks: all.
  void agree_on_another_epoch();
  /// Ranks: all. Loaders are asked for anew before an epoch that will come.
  bool reload_is_due();
  void reload();
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
  ResumePoint resume_;  ///< of the epoch that begins next
  bool continues_ = false;
  bool has_begun_ = false;  ///< on_train_start has run
  std::optional<ScheduleWatch> schedules_;
  std::int64_t steps_before_ = 0;  ///< global_step when training began
  EpochLoop epoch_;
};

}  // namespace levin
