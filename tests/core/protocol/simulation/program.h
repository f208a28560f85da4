#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metrics.h"

namespace levin::testing {

/// A metric object of the generated program's module.
struct ObjectPlan {
  std::string name;
  detail::MetricGroup group = detail::MetricGroup::kTrain;  ///< in whose hooks it is used
  bool has_numbers = false;                                 ///< a part of fixed size
  int row_lists = 0;                                        ///< parts that grow: 0 to 2
};

/// One log() in the generated program's source.
struct LogStatement {
  Hook hook = Hook::kTrainingStep;
  std::string name;
  LogOptions options;
  std::uint32_t line = 0;   ///< its call site is "program.cpp:LINE"
  std::uint32_t ranks = 0;  ///< bit r: rank r executes it
  int period = 1;           ///< only in every period-th visit of the hook
  bool deferred = false;
  bool wild = false;  ///< logs NaN and infinities now and then
  // Of a metric object, in this order: reset(), update() so often, log().
  int object = -1;  ///< which one's value is logged; -1: a number
  bool resets = false;
  int updates = 0;
  bool logs = true;
};

/// What a metric object is given at one update.
struct Sample {
  double value = 0;
  std::int16_t factor = 1;
};

/// One thing that every rank does, or skips when it has no such batch.
struct Phase {
  /// kResume: a snapshot brings all that the run has recorded into a new run, which resumes here.
  enum Type { kBeginStage, kEndStage, kBeginBatch, kEndBatch, kHook, kBoundary, kResetEpoch, kResume };
  Type type = kHook;
  Hook hook = Hook::kNone;
  Boundary boundary;  ///< its stage holds for kBeginStage too
  int batch = -1;     ///< index within the loader; -1 outside of batches: all ranks do it
  int dataloader = 0;
  bool training = true;  ///< which lengths decide the ranks that have the batch
};

/// What goes wrong in a program, besides what its log() statements do.
struct Fault {
  enum Type { kNone, kThrows, kWrongBoundary, kDeferredFails, kObjectFails };
  Type type = kNone;
  int rank = 0;
  std::size_t phase = 0;
};

/// A run on several ranks. Everything about it follows from its seed.
struct Program {
  std::uint64_t seed = 0;
  int ranks = 2;
  bool strict = false;
  bool reorder = false;  ///< odd ranks execute the statements of a hook in the opposite order
  int dataloaders = 1;
  std::vector<int> train_batches;  ///< by rank
  std::vector<int> val_batches;    ///< by rank, of each loader
  std::vector<ObjectPlan> objects;
  std::vector<LogStatement> statements;
  std::vector<Phase> phases;
  std::size_t end_phase = 0;  ///< where a stop leads to
  int stop_rank = -1;
  std::size_t stop_phase = 0;  ///< the boundary at which stop_rank votes
  Fault fault;

  bool has(const Phase& phase, int rank) const;
  /// The statements that a rank executes in a hook, in its order.
  std::vector<std::size_t> statements_at(std::size_t phase, int rank) const;
  double value(std::size_t statement, std::size_t phase, int rank, int update = 0) const;
  /// Of a metric object's statement.
  Sample sample(std::size_t statement, std::size_t phase, int rank, int update) const;
  std::int64_t batch_size(std::size_t phase, int rank) const;
  /// Whether the rank's user reads all metrics in this hook, which must have no effect elsewhere.
  bool reads_metrics(std::size_t phase, int rank) const;
  Votes votes(std::size_t phase, int rank) const;
  BoundaryPayload payload(std::size_t phase, int rank) const;
};

Program generate(std::uint64_t seed);

}  // namespace levin::testing
