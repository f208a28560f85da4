#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/module.h"
#include "levin/core/profiler.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/run/progress.h"
#include "levin/core/run/run_setup.h"

namespace levin {

/// Which hook runs: log() takes its permissions from it, errors and stall reports their location.
class HookTracker {
 public:
  HookTracker(const Progress& progress, MetricStore& metrics, Strategy& strategy)
      : progress_(progress), metrics_(metrics), strategy_(strategy) {}
  HookTracker(const HookTracker&) = delete;
  HookTracker& operator=(const HookTracker&) = delete;

  Hook hook() const { return hook_; }
  Whereabouts whereabouts() const { return {progress_.stage, hook_, progress_.epoch, progress_.global_step}; }

  /// Between two calls of a Session: the thread is in its caller's code, or back from there.
  void leave() { enter(Hook::kOutside); }
  void come_back() { enter(Hook::kNone); }

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
    ThreadExitGuard::block_if_exiting();
    // By now LibTorch has made what a step needs.
    if (hook == Hook::kOnTrainBatchEnd && !std::exchange(has_trained_, true)) ThreadExitGuard::watch_exit();
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
    } catch (...) {  // only other ranks read the posted hook; its error must not end the process
    }
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  HookTracker& tracker_;
  Hook outer_;
  int exceptions_ = std::uncaught_exceptions();
};

/// Runs hooks in the one order of every rank: callbacks as listed, the module, and last callbacks that save state
/// (CallbackPhase::kCheckpoint), so that a checkpoint holds what the others have done.
class HookRunner {
 public:
  /// `trainer`: what callbacks are given; it may be null where there are none, and so may `profiler`.
  HookRunner(Trainer* trainer, const RunParts& parts, HookTracker& tracker, Profiler* profiler = nullptr)
      : trainer_(trainer), parts_(parts), tracker_(tracker), profiler_(profiler) {}

  Profiler* profiler() const { return profiler_; }
  /// An entry point begins.
  void forget_names() { names_.clear(); }  // it may have other objects at the same addresses

  /// The time in which a hook runs that is not called through this object.
  HookScope enter(Hook hook) { return {tracker_, hook}; }

  /// All of them, with the same arguments.
  template <class CallbackHook, class ModuleHook, class... Args>
  void run(Hook hook, CallbackHook callback_hook, ModuleHook module_hook, Args&&... args) {
    const HookScope scope(tracker_, hook);
    each(others, hook, callback_hook, args...);
    {
      const ProfiledAction action(profiler_, name_of(*parts_.module, hook));
      std::invoke(module_hook, *parts_.module, args...);
    }
    each(&Callback::saves_state, hook, callback_hook, args...);
  }
  /// Callbacks of certain phases only.
  template <class Filter, class CallbackHook, class... Args>
  void callbacks_if(Filter filter, Hook hook, CallbackHook callback_hook, Args&&... args) {
    const HookScope scope(tracker_, hook);
    each(filter, hook, callback_hook, args...);
  }
  template <class CallbackHook, class... Args>
  void callbacks(Hook hook, CallbackHook callback_hook, Args&&... args) {
    callbacks_if([](const Callback&) { return true; }, hook, callback_hook, std::forward<Args>(args)...);
  }
  /// The module's hook alone; gives what it returns.
  template <class ModuleHook, class... Args>
  decltype(auto) module(Hook hook, ModuleHook module_hook, Args&&... args) {
    const HookScope scope(tracker_, hook);
    const ProfiledAction action(profiler_, name_of(*parts_.module, hook));
    return std::invoke(module_hook, *parts_.module, std::forward<Args>(args)...);
  }

  static bool others(const Callback& callback) { return !callback.saves_state(); }

 private:
  template <class Filter, class CallbackHook, class... Args>
  void each(const Filter& filter, Hook hook, CallbackHook callback_hook, Args&&... args) {
    for (const auto& callback : parts_.callbacks) {
      if (!std::invoke(filter, *callback)) continue;
      const ProfiledAction action(profiler_, name_of(*callback, hook));
      std::invoke(callback_hook, *callback, *trainer_, *parts_.module, args...);
    }
  }
  /// For a profiler, in Lightning's words, each made once: "[Callback]ModelCheckpoint.on_train_batch_end",
  /// "[LightningModule]Digits.training_step".
  template <class Owner>
  std::string_view name_of(const Owner& owner, Hook hook) {
    if (profiler_ == nullptr) return {};
    const auto [place, is_new] = names_.try_emplace({&owner, hook});
    if (is_new) place->second = format("{}.{}", owner_name(owner), hook_name(hook));
    return place->second;
  }
  static std::string owner_name(const Callback& callback) { return "[Callback]" + callback.class_name(); }
  static std::string owner_name(const Module& module) { return "[LightningModule]" + class_name_of(typeid(module)); }

  Trainer* trainer_;
  const RunParts& parts_;
  HookTracker& tracker_;
  Profiler* profiler_;
  std::map<std::pair<const void*, Hook>, std::string> names_;
};

}  // namespace levin
