#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "levin/core/base/unfinished_work.h"
#include "levin/core/protocol/hook.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/run/progress.h"
#include "levin/core/strategy.h"

namespace levin {

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
