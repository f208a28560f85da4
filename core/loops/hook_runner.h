#pragma once

#include <exception>
#include <functional>

#include "levin/core/callback.h"
#include "levin/core/loops/runtime.h"

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

/// Runs hooks in the one order that every rank keeps: callbacks as listed, then the module.
class HookRunner {
 public:
  explicit HookRunner(Trainer::Runtime& runtime) : runtime_(runtime) {}

  /// Callbacks, then the module, with the same arguments.
  template <class CallbackHook, class ModuleHook, class... Args>
  void run(Hook hook, CallbackHook callback_hook, ModuleHook module_hook, Args&&... args) {
    HookScope scope(runtime_, hook);
    for (const auto& callback : runtime_.callbacks) {
      std::invoke(callback_hook, *callback, runtime_.trainer, *runtime_.module, args...);
    }
    std::invoke(module_hook, *runtime_.module, args...);
  }
  /// Callbacks of certain phases only.
  template <class Filter, class CallbackHook, class... Args>
  void callbacks_if(Filter filter, Hook hook, CallbackHook callback_hook, Args&&... args) {
    HookScope scope(runtime_, hook);
    for (const auto& callback : runtime_.callbacks) {
      if (filter(*callback)) std::invoke(callback_hook, *callback, runtime_.trainer, *runtime_.module, args...);
    }
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

 private:
  Trainer::Runtime& runtime_;
};

}  // namespace levin
