#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/protocol/metric_views.h"

namespace levin::detail {

/// What log() does: checks, finds the metric, adds to this rank's slots. Never communicates. Made by the thread that logs.
class MetricRecorder {
 public:
  MetricRecorder(MetricTable& table, MetricViews& views, int rank, int world_size);

  /// No stage has begun.
  bool is_idle() const { return scopes_.size() == 1; }
  void begin_stage(Stage stage);
  /// Gives the stage that ended.
  Stage end_stage();
  void begin_batch(const BatchScope& batch);
  void end_batch();
  void reset_epoch();
  /// Called: after a boundary, when what it carries has been exchanged.
  void end_boundary(BoundaryKind kind);

  void log(Hook hook, std::string_view name, double value, const LogOptions& options, CallSite where);
  void log(Hook hook, std::string_view name, std::shared_ptr<DeferredValue> value, const LogOptions& options, CallSite where);

  /// This rank's batches since the last boundary of this level.
  std::int64_t batches(MetricGroup group, Level level) const;
  MetricMap local_step_row() const;

  /// save(MetricMoment::kMark) gives what was recorded until here.
  void mark() { ++mark_; }
  /// What is recorded of training, all but the maps. Waits for values that are still on a device.
  MetricSnapshot save(MetricMoment moment);
  /// Puts it back in place of all that is recorded of training; `by_rank`: of this rank, or of several in place of which it
  /// goes on. A metric whose options are others now starts anew.
  void restore(const std::vector<MetricSnapshot>& by_rank);

 private:
  /// A stage, and the batch that it works on.
  struct Scope {
    Stage stage = Stage::kTrain;
    MetricGroup group = MetricGroup::kCount;
    bool in_batch = false;
    BatchScope batch;
  };
  struct BatchCounts {
    std::int64_t run = 0;
    std::int64_t epoch = 0;
    std::int64_t step = 0;
  };

  MetricEntry& entry_of(Hook hook, std::string_view name, const LogOptions& options, CallSite where);
  MetricEntry& new_entry(const MetricKey& key, const MetricOptions& options, CallSite where);
  double weight_of(const LogOptions& options, const MetricEntry& entry, CallSite where) const;
  bool counts_here(const MetricEntry& entry) const { return rank_ == 0 || !entry.options.rank_zero_only; }
  /// `deferred`: the value itself, where it is still on a device.
  void set_step(MetricEntry& entry, const Slot& slot, std::shared_ptr<DeferredValue> deferred = nullptr);
  /// Called: before an entry changes.
  void keep_marked(MetricEntry& entry);
  void restore(const SavedMetric& saved);
  void reset(MetricGroup group);
  BatchCounts& counts(MetricGroup group) { return counts_[static_cast<std::size_t>(group)]; }
  const BatchCounts& counts(MetricGroup group) const { return counts_[static_cast<std::size_t>(group)]; }

  MetricTable& table_;
  MetricViews& views_;
  const int rank_;
  const int world_size_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<Scope> scopes_{Scope{}};  ///< the outermost is no stage at all
  std::array<BatchCounts, kMetricGroups + 1> counts_{};
  std::int64_t mark_ = 1;
};

/// Puts a deferred value of a metric into its slot, and waits for it where nobody has read it before.
void settle_step(MetricRecord& record);
void settle_epoch(MetricRecord& record, Reduce reduce);

}  // namespace levin::detail
