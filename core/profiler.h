#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/config/value.h"

namespace levin {

/// In what ranks wait for one another.
enum class WaitReason : std::uint8_t {
  kMeeting,   ///< metrics and decisions, over the control group
  kGradients  ///< reductions of gradients, within backward passes
};

/// Measures where the time of a run goes: `profiler:` of the Trainer. Derive, override, register the class. Measured are hooks,
/// each callback's and the module's, by Lightning's names (`[Callback]ModelCheckpoint.on_train_batch_end`,
/// `[LightningModule]Digits.training_step`, `run_training_batch`), and the user's own actions (Trainer::profile()). Ranks: each
/// has its own. Threading: called by the training thread. Example: callbacks/profilers.cpp.
class LEVIN_API Profiler {
 public:
  virtual ~Profiler() = default;

  /// Called: first in fit, validate, test and predict. What was measured before is forgotten.
  virtual void begin(Trainer&, Stage) {}
  /// An action begins, within those that have begun and not ended. Called: often; it should take less than a microsecond.
  virtual void start(std::string_view action) = 0;
  /// It ends, also by an exception. Must not throw.
  virtual void stop(std::string_view action) = 0;
  /// A batch of any stage is done.
  virtual void batch_done() {}
  /// Ranks have met: this one came at `arrived` and left at `left`, in seconds of its host's steady clock. All get as many of
  /// each kind, in one order. Must not throw.
  virtual void waited(WaitReason, double /*arrived*/, double /*left*/) {}
  /// Called: last, when all has been done. Ranks: all, so that it may exchange what was measured. Throws IoError.
  virtual void end(Trainer&) {}
  /// In place of end(), when an error is leaving: other ranks may be gone. Throws IoError.
  virtual void end_failed(Trainer&) {}

  /// The options that this profiler was made with, which ranks compare. Default: null.
  virtual Value settings() const { return {}; }
};

/// An action, as long as it lives.
class [[nodiscard]] ProfiledAction {
 public:
  /// `profiler`: null measures nothing, and costs next to nothing.
  ProfiledAction(Profiler* profiler, std::string_view action) : profiler_(profiler) {
    if (profiler_ == nullptr) return;
    action_ = action;
    profiler_->start(action_);
  }
  ~ProfiledAction() {
    if (profiler_ != nullptr) profiler_->stop(action_);
  }
  ProfiledAction(const ProfiledAction&) = delete;
  ProfiledAction& operator=(const ProfiledAction&) = delete;

 private:
  Profiler* profiler_;
  std::string action_;
};

}  // namespace levin
