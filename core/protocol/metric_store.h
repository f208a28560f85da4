#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/core/config/value.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// All that one rank has recorded of training and shows: a run that resumes from it has the same rows and decisions.
struct MetricSnapshot {
  /// As a checkpoint's manifest has it: what was recorded of each metric in the epoch under way, the names of metric objects,
  /// and how many batches there were since the last boundary at the end of an epoch, and of a step.
  Value training =
      Value::Map{{"training", Value::List{}}, {"objects", Value::List{}}, {"epoch_batches", 0}, {"step_batches", 0}};
  /// Of metric objects: "step.3", of the batch that was logged last, of the third metric; "epoch.NAME", of the epoch, whether
  /// it was logged yet or not; "all.NAME", of all ranks, where compute() sees that.
  std::map<std::string, MetricState> states{};
  MetricMaps maps{};
};

/// What log() needs to know of the batch that is being worked on.
struct BatchScope {
  std::int64_t batch_size = 1;  ///< weight of a mean when the user gives none
  std::int64_t dataloader_idx = 0;
  std::int64_t num_dataloaders = 1;  ///< more than one: evaluation keys get `/dataloader_idx_{i}`
};

/// All metrics of a run: what log() records, what ranks agree on at boundaries, and what users read.
///
/// log() and every reader touch this rank's memory only. Communication happens in meet() alone, which every rank calls at the
/// same boundaries: one all_gather when the group has agreed on all keys, else two. Threading: one thread.
class MetricStore {
 public:
  struct Options {
    bool strict_logging = false;                   ///< a key that only some ranks logged is an error on every rank
    std::function<void(const std::string&)> warn;  ///< called on every rank with the same text; the caller prints it once
  };

  MetricStore(ControlGroup& group, Options options);
  ~MetricStore();
  MetricStore(const MetricStore&) = delete;
  MetricStore& operator=(const MetricStore&) = delete;

  /// Forgets everything, for an entry point that begins.
  void clear();

  /// Where the run is: which hook runs, and in which stage. log() takes its permissions and defaults from it.
  void enter(Hook hook) { hook_ = hook; }
  Hook hook() const { return hook_; }

  /// Sets the metric objects of the running module; none, when it is gone. They outlive this, or are removed before they end.
  void set_objects(const std::vector<MetricObject*>& objects);

  /// Starts a stage: forgets what an earlier evaluation of the same kind accumulated. Training keeps its table while a
  /// validation runs inside it.
  void begin_stage(Stage stage);
  /// Back to the enclosing stage (training after validation); results of a sanity check vanish here.
  void end_stage();
  void begin_batch(const BatchScope& scope);
  void end_batch();
  /// Forgets accumulated epoch values, after an epoch's row has been written; callback_metrics keep the last values.
  void reset_epoch();

  /// What this rank has recorded of training, for a checkpoint, and the maps. Waits for values on a device.
  MetricSnapshot save();
  /// Restores a snapshot, replacing all that was recorded of training and shown. `by_rank`: the snapshots of this rank, or of
  /// several whose state this one takes over. The maps are the first one's. A key with changed options starts from zero.
  /// Restores nothing from an empty list.
  void restore(const std::vector<MetricSnapshot>& by_rank);

  /// What each metric object holds, whether it was logged or not.
  std::vector<HeldState> object_states() const;

  /// Records a value. Throws MisuseError, naming hook, key and call site, when the hook does not permit it, the key's options
  /// changed, or the name is empty, reserved or contains a line break.
  void log(std::string_view name, double value, const LogOptions& options, CallSite where);
  void log(std::string_view name, std::shared_ptr<DeferredValue> value, const LogOptions& options, CallSite where);

  /// The value of a metric object: of the batch, and of the epoch. Throws MisuseError, too, when the module has no such object,
  /// when it is logged in another stage already, and for the options reduce and batch_size.
  void log(std::string_view name, MetricObject& object, const LogOptions& options, CallSite where);

  /// Ranks: all. Exchanges one frame for everything that is due at this boundary: step metrics at kTrainStep, epoch metrics at
  /// kEpochReached and kEpochEnd, at these and at kDecision step metrics that are newer than the last such boundary, votes and
  /// payloads always. Throws DesyncError when ranks met in different boundaries.
  BoundaryOutcome meet(const Boundary& boundary, const Votes& votes, const BoundaryPayload& payload = {});

  /// The views of Lightning. Pure: reading them never communicates, on any rank, at any time. Waits for values on a device.
  const MetricMaps& maps() const;
  const MetricMap& callback_metrics() const { return maps().callback; }
  const MetricMap& logged_metrics() const { return maps().logged; }
  const MetricMap& progress_bar_metrics() const { return maps().progress_bar; }
  /// The same without a wait: values that are still on a device are those of some steps before, or missing. For what is drawn.
  MetricMaps maps_at_hand() const;
  /// The next boundary of a step reads this value along with its own, in one wait.
  void read_along(std::shared_ptr<DeferredValue> value);
  /// The loader of the last evaluation to which this name, as loggers see it, belongs: it was logged in batches of one loader,
  /// of several, or in none. The same on all ranks, after a boundary.
  bool is_of_loader(std::string_view name, std::int64_t loader) const;
  /// The value for a monitor's decisions, identical on all ranks: the reduced or rank-zero value, or, for a local value, rank
  /// 0's. On one rank it is the newest; on several that of the last boundary that carries it. Unset while no rank has logged
  /// the key.
  std::optional<double> monitored(std::string_view name) const;
  /// Step values of this rank as they are now, unreduced, with the names loggers use.
  MetricMap local_step_row() const;
  /// A value that is not logged but can be monitored and shown, such as a learning rate. The same on all ranks by construction.
  void set_callback_metric(std::string_view name, double value);

  /// How many collectives meet() has started, for tests and docs.
  std::int64_t collectives() const;

 private:
  Hook hook_ = Hook::kNone;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levin
