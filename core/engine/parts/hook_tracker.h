#pragma once

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/base/hook.h"
#include "levin/core/base/steady_seconds.h"
#include "levin/core/base/unfinished_work.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/profiler.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/strategy.h"

namespace levin {

class Callback;
class Module;

/// What a profiler is told of hooks, in Lightning's words; callbacks of one class have one name. Each name is made once.
class ActionNames {
 public:
  /// "[Callback]ModelCheckpoint.on_train_batch_end"
  std::string_view of(const Callback& callback, Hook hook);
  /// "[LightningModule]Digits.training_step".
  std::string_view of(const Module& module, Hook hook);
  /// Before an entry point, which may have other objects at the same places.
  void clear() { names_.clear(); }

 private:
  template <class MakeName>
  std::string_view kept(const void* owner, Hook hook, const MakeName& make_name);

  std::map<std::pair<const void*, Hook>, std::string> names_;
};

/// Tells a profiler, if there is one, how long this rank was in a meeting of all, when it has come to its end.
class [[nodiscard]] TimedWait {
 public:
  TimedWait(Profiler* profiler, WaitReason kind) : profiler_(profiler), kind_(kind) {
    if (profiler_ != nullptr) arrived_ = steady_seconds();
  }
  ~TimedWait() {
    try {
      if (profiler_ != nullptr) profiler_->waited(kind_, arrived_, steady_seconds());
    } catch (...) {  // it must not throw, and here it could only end the process
    }
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  Profiler* profiler_;
  WaitReason kind_;
  double arrived_ = 0;
};

/// Which hook runs: log() takes its permissions from it, errors and stall reports their place.
class HookTracker {
 public:
  HookTracker(const Progress& progress, MetricStore& metrics, Strategy& strategy)
      : progress_(progress), metrics_(metrics), strategy_(strategy) {}
  HookTracker(const HookTracker&) = delete;
  HookTracker& operator=(const HookTracker&) = delete;

  Hook hook() const { return hook_; }
  Whereabouts whereabouts() const { return {progress_.stage, hook_, progress_.epoch, progress_.global_step}; }

  /// An entry point begins: nothing has failed yet.
  void reset() { failed_at_.reset(); }
  /// Something fails. Gives where it first did, which stays on record while the error leaves through the hooks above.
  Whereabouts fail() {
    if (!failed_at_) failed_at_ = whereabouts();
    return *failed_at_;
  }

 private:
  friend class HookScope;
  void enter(Hook hook) {
    WorkingThread::stay_if_process_ends();
    // By now LibTorch has made what a step needs.
    if (hook == Hook::kOnTrainBatchEnd && !std::exchange(has_trained_, true)) WorkingThread::watch_exit();
    hook_ = hook;
    metrics_.enter(hook);
    if (!failed_at_) strategy_.post_whereabouts(whereabouts());
  }

  const Progress& progress_;
  MetricStore& metrics_;
  Strategy& strategy_;
  Hook hook_ = Hook::kNone;
  bool has_trained_ = false;
  std::optional<Whereabouts> failed_at_;
};

/// Marks the time in which a hook runs.
class [[nodiscard]] HookScope {
 public:
  HookScope(HookTracker& tracker, Hook hook) : tracker_(tracker), outer_(tracker.hook()) { tracker_.enter(hook); }
  ~HookScope() {
    if (std::uncaught_exceptions() > exceptions_) tracker_.fail();
    try {
      tracker_.enter(outer_);
    } catch (...) {  // where a rank is posted is for others to read; no error of it may end the process
    }
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  HookTracker& tracker_;
  Hook outer_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace levin
