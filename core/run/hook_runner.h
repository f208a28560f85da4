#pragma once

#include <exception>
#include <functional>

#include "levin/core/callback.h"
#include "levin/core/run/runtime.h"

namespace levin {

/// Marks the time in which a hook runs: log() takes its permissions from it, errors and stall reports their place.
class HookScope {
 public:
  HookScope(Trainer::Runtime& runtime, Hook hook) : runtime_(runtime), outer_(runtime.state.hook) { enter(hook); }
  ~HookScope() {
    if (std::uncaught_exceptions() > exceptions_ && !runtime_.state.failed_at) {
      runtime_.state.failed_at = runtime_.state.whereabouts();
    }
    enter(outer_);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  void enter(Hook hook) {
    runtime_.state.hook = hook;
    runtime_.metrics->enter(hook);
    // Once something has failed, the place of the failure stays on record.
    if (!runtime_.state.failed_at) runtime_.strategy->post_whereabouts(runtime_.state.whereabouts());
  }

  Trainer::Runtime& runtime_;
  Hook outer_;
  int exceptions_ = std::uncaught_exceptions();
};

/// Counts the callbacks, the module among them, that have their turn in the hooks of one place, in the order in which they
/// have it. A checkpoint that one of them writes remembers the count, and a run that goes on from it begins after that one.
class HookCounter {
 public:
  /// `done`: LoopPosition::hooks_done, which says at first how many an earlier run has done.
  explicit HookCounter(int& done) : done_(done), skip_(done) {}
  /// Before each turn. False: an earlier run has done it.
  bool next() {
    if (index_++ < skip_) return false;
    done_ = index_;
    return true;
  }

 private:
  int& done_;
  int skip_;
  int index_ = 0;
};

/// Runs hooks in the one order that every rank keeps: callbacks as listed, the module, and last the callbacks that save state
/// (CallbackPhase::kCheckpoint), so that a checkpoint holds what the others have done.
class HookRunner {
 public:
  explicit HookRunner(Trainer::Runtime& runtime) : runtime_(runtime) {}

  /// All of them, with the same arguments.
  template <class CallbackHook, class ModuleHook, class... Args>
  void run(Hook hook, CallbackHook callback_hook, ModuleHook module_hook, Args&&... args) {
    HookScope scope(runtime_, hook);
    each(others, callback_hook, args...);
    std::invoke(module_hook, *runtime_.module, args...);
    each(saves_state, callback_hook, args...);
  }
  /// The same, but for those that an earlier run has done.
  template <class CallbackHook, class ModuleHook, class... Args>
  void run_counted(HookCounter& counter, Hook hook, CallbackHook callback_hook, ModuleHook module_hook, Args&&... args) {
    callbacks_counted(counter, others, hook, callback_hook, args...);
    module_counted(counter, hook, module_hook, args...);
    callbacks_counted(counter, saves_state, hook, callback_hook, args...);
  }
  template <class Filter, class CallbackHook, class... Args>
  void callbacks_counted(HookCounter& counter, Filter filter, Hook hook, CallbackHook callback_hook, Args&&... args) {
    callbacks_if([&](const Callback& callback) { return filter(callback) && counter.next(); }, hook, callback_hook, args...);
  }
  template <class ModuleHook, class... Args>
  void module_counted(HookCounter& counter, Hook hook, ModuleHook module_hook, Args&&... args) {
    if (counter.next()) module(hook, module_hook, args...);
  }
  /// Callbacks of certain phases only.
  template <class Filter, class CallbackHook, class... Args>
  void callbacks_if(Filter filter, Hook hook, CallbackHook callback_hook, Args&&... args) {
    HookScope scope(runtime_, hook);
    each(filter, callback_hook, args...);
  }
  template <class CallbackHook, class... Args>
  void callbacks(Hook hook, CallbackHook callback_hook, Args&&... args) {
    callbacks_if([](const Callback&) { return true; }, hook, callback_hook, std::forward<Args>(args)...);
  }
  /// The module's hook alone; gives what it returns.
  template <class ModuleHook, class... Args>
  decltype(auto) module(Hook hook, ModuleHook module_hook, Args&&... args) {
    HookScope scope(runtime_, hook);
    return std::invoke(module_hook, *runtime_.module, std::forward<Args>(args)...);
  }

  static bool others(const Callback& callback) { return !saves_state(callback); }
  static bool saves_state(const Callback& callback) { return callback.phase() == CallbackPhase::kCheckpoint; }

 private:
  template <class Filter, class CallbackHook, class... Args>
  void each(const Filter& filter, CallbackHook callback_hook, Args&&... args) {
    for (const auto& callback : runtime_.callbacks) {
      if (filter(*callback)) std::invoke(callback_hook, *callback, runtime_.trainer, *runtime_.module, args...);
    }
  }

  Trainer::Runtime& runtime_;
};

}  // namespace levin
