#pragma once

#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

class MetricStore;
class Module;
struct TrainerState;

/// Ties a module and those below it to the Trainer that runs it: from an entry point until the next, or the end of one of them.
class ModuleAttachment {
 public:
  /// In the scope of an entry point this thread runs a Trainer's hooks: modules added below its module meanwhile are found.
  class Scope {
   public:
    explicit Scope(TrainerState& run);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerState* outer_;
  };

  /// While it lives, what a run's modules log goes nowhere.
  class Silence {
   public:
    explicit Silence(TrainerState& run);
    ~Silence();
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

   private:
    TrainerState& run_;
  };

  /// The run whose hooks this thread runs; null for none.
  static TrainerState* running();
  /// The Trainer that had the module lets go of it. Throws MisuseError when that one is running it just now.
  static void release(Module& module);
  static void attach(Module& module, TrainerState& run);
  /// The Trainer lets go of its module and of all below it.
  static void detach(TrainerState& run);
  /// Called: by a module's destructor.
  static void forget(Module& module);

  /// True when the module is part of a run.
  static bool find(const Module& module);
  /// Tells the run's metrics which metric objects the module and those below it have.
  static void set_metric_objects(TrainerState& run);
  /// Where the module logs; null without a run. A module that logs in a run it is no part of is told of once. `call`: the
  /// function that it calls.
  static MetricStore* metrics(const Module& module, std::string_view name, const SourceLocation& where,
                              std::string_view call = "log");

 private:
  static void tie(const Module& module, TrainerState& run);
  static void set(const Module& module, TrainerState* run);
  /// The one that runs, and those below it.
  static std::vector<const Module*> all(const TrainerState& run);
};

}  // namespace levin
