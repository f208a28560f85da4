#pragma once

#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

class MetricStore;
class Module;
struct PredictorParts;
struct TrainerState;

/// Attaches a module and those below it to the Trainer that runs it, from one entry point to the next, or until either is
/// destroyed.
class ModuleAttachment {
 public:
  /// The scope of an entry point, in which this thread runs a Trainer's hooks: it finds modules that hooks add.
  class Scope {
   public:
    explicit Scope(TrainerState& run);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerState* outer_;
  };

  /// While it lives, values that a run's modules log are dropped.
  class Silence {
   public:
    explicit Silence(TrainerState& run);
    ~Silence();
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

   private:
    TrainerState& run_;
  };

  /// The run whose hooks this thread runs, or null.
  static TrainerState* running();
  /// Detaches the module from the Trainer that had it. Throws MisuseError while that Trainer is running it.
  static void release(Module& module);
  static void attach(Module& module, TrainerState& run);
  /// Detaches the Trainer's module and all below it.
  static void detach(TrainerState& run);
  /// Called: by a module's destructor.
  static void forget(Module& module);

  /// Lets the module and those below it ask a Predictor's parts; null: no longer.
  static void set_predictor(const Module& module, const PredictorParts* parts);
  /// True when the module is part of a run.
  static bool find(const Module& module);
  /// Gives the run's metrics the metric objects of the module and those below it.
  static void set_metric_objects(TrainerState& run);
  /// Where the module logs; null without a run. Warns once of a module that logs in a run it is no part of. `call`: the
  /// function that it calls.
  static MetricStore* metrics(const Module& module, std::string_view name, const SourceLocation& where,
                              std::string_view call = "log");

 private:
  static void tie(const Module& module, TrainerState& run);
  static void set(const Module& module, TrainerState* run);
  /// The module that runs, and those below it.
  static std::vector<const Module*> all(const TrainerState& run);
};

}  // namespace levin
