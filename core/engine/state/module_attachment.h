#pragma once

#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"

namespace levin {

struct TrainerState;

/// Ties a module, and the modules below it, to the Trainer that runs it: from an entry point until the next one, or until one
/// of the two is gone.
class ModuleAttachment {
 public:
  /// Says for a scope, an entry point, that this thread runs the hooks of a Trainer. A module below its module which was added
  /// meanwhile is found by that when it first asks.
  class Scope {
   public:
    explicit Scope(TrainerState& run);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerState* outer_;
  };

  /// The Trainer that had the module lets go of it. Throws MisuseError when that one is running it just now.
  static void release(Module& module);
  static void attach(Module& module, TrainerState& run);
  /// The Trainer lets go of its module and of all below it.
  static void detach(TrainerState& run);
  /// Called: by a module's destructor.
  static void forget(Module& module);

  /// True when the module is part of a run.
  static bool find(const Module& module);
  /// Where the module logs; null without a run. A module that logs in a run it is no part of is told of once.
  static MetricStore* metrics(const Module& module, std::string_view name, const SourceLocation& where);

 private:
  static void tie(const Module& module, TrainerState& run);
};

}  // namespace levin
