#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/config/value.h"

namespace levin {

/// Why ranks wait for one another.
enum class WaitReason : std::uint8_t {
  kExchange,  ///< metrics and decisions, over the control group
  kGradients  ///< reductions of gradients, within backward passes
};

/// Measures how a run spends its time: `profiler:` of the Trainer. Derive, override, register the class. It measures the hooks
/// of each callback and of the module, under Lightning's names (`[Callback]ModelCheckpoint.on_train_batch_end`,
/// `[LightningModule]Digits.training_step`, `run_training_batch`), and the user's own actions (Trainer::profile()). Ranks: each
/// has its own. Threading: called by the training thread. Example: callbacks/simple_profiler.cpp.
class LEVIN_API Profiler {
 public:
  virtual ~Profiler() = default;

  /// Called: first in fit, validate, test and predict. Discards earlier measurements.
  virtual void begin(Trainer&, Stage) {}
  /// An action begins, within those that have begun and not ended. Called: often; it should take less than a microsecond.
  virtual void start(std::string_view action) = 0;
  /// It ends, also by an exception. Must not throw.
  virtual void stop(std::string_view action) = 0;
  /// A batch of any stage is done.
  virtual void batch_done() {}
  /// Ranks have synchronized: this one arrived at `arrived` and left at `left`, in seconds of its host's steady clock. All
  /// ranks get the same number of each kind, in one order. Must not throw.
  virtual void waited(WaitReason, double /*arrived*/, double /*left*/) {}
  /// Called: last, when all work is done. Ranks: all, so that they may exchange their measurements. Throws IoError.
  virtual void end(Trainer&) {}
  /// Called: instead of end(), after an error: other ranks may be gone. Throws IoError.
  virtual void end_failed(Trainer&) {}

  /// The options that this profiler was made with, which ranks compare. Default: null.
  virtual Value settings() const { return {}; }
};

/// Measures an action for the lifetime of this object.
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
