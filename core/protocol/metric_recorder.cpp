#include "levin/core/protocol/metric_recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::detail {

namespace {

[[noreturn]] void misuse(Hook hook, std::string_view name, CallSite where, const std::string& why) {
  const std::string place = hook == Hook::kNone ? "outside of a hook" : format("in {}", hook_name(hook));
  throw MisuseError(format("log(\"{}\") {} ({}): {}", name, place, where.str(), why));
}

void check_name(const MetricKey& key, CallSite where) {
  const std::string_view name = key.name;
  if (name.empty()) misuse(key.hook, name, where, "the name is empty");
  const auto is_control = [](char character) { return static_cast<unsigned char>(character) < 0x20 || character == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    std::string visible(name);
    std::replace_if(visible.begin(), visible.end(), is_control, '?');
    misuse(key.hook, visible, where, "the name contains a line break or another control character");
  }
  if (name == "step" || name == "epoch") {
    misuse(key.hook, name, where,
           "this name is reserved: levin writes the step and the epoch of every row itself; choose another name");
  }
  if (name.find("/dataloader_idx_") != std::string_view::npos) {
    misuse(key.hook, name, where,
           "\"/dataloader_idx_\" is reserved: levin adds it when there are several loaders (see add_dataloader_idx)");
  }
}

/// The epoch values of two ranks as one.
Slot joined(Reduce reduce, const Slot& one, const Slot& other) {
  if (!one.present() || !other.present()) return one.present() ? one : other;
  return {combine(reduce, one.value, other.value), one.weight + other.weight};
}

/// The step values of two ranks as one.
Slot joined_step(Reduce reduce, const Slot& one, const Slot& other) {
  if (!one.present() || !other.present()) return one.present() ? one : other;
  const std::array<Slot, 2> both = {one, other};
  return {reduce_step(both, reduce), one.weight + other.weight};
}

[[noreturn]] void level_error(const MetricKey& key, const MetricOptions& options, CallSite where) {
  if (!options.on_step && !options.on_epoch) {
    misuse(key.hook, key.name, where, "on_step and on_epoch are both false, so that the value would go nowhere");
  }
  misuse(key.hook, key.name, where, "this hook runs once an epoch: on_step must be false and on_epoch true");
}

}  // namespace

MetricRecorder::MetricRecorder(MetricTable& table, MetricViews& views, int rank, int world_size)
    : table_(table), views_(views), rank_(rank), world_size_(world_size) {}

void MetricRecorder::reset(MetricGroup group) {
  if (group == MetricGroup::kCount) return;
  table_.reset(group);
  counts(group).epoch = 0;
  counts(group).step = 0;
}

void MetricRecorder::begin_stage(Stage stage) {
  scopes_.push_back({.stage = stage, .group = group_of(stage), .batch = {}});
  reset(group_of(stage));
}

Stage MetricRecorder::end_stage() {
  if (is_idle()) throw MisuseError("MetricStore::end_stage() without a stage that has begun");
  const Scope ended = scopes_.back();
  scopes_.pop_back();
  if (ended.stage == Stage::kSanityCheck) reset(ended.group);
  return ended.stage;
}

void MetricRecorder::begin_batch(const BatchScope& batch) {
  Scope& scope = scopes_.back();
  scope.in_batch = true;
  scope.batch = batch;
  BatchCounts& count = counts(scope.group);
  ++count.run;
  // A rank that is out of data takes part in the batch of the others, and has nothing to log.
  if (batch.batch_size == 0) return;
  ++count.epoch;
  ++count.step;
}

void MetricRecorder::end_batch() { scopes_.back().in_batch = false; }

void MetricRecorder::reset_epoch() { reset(scopes_.back().group); }

void MetricRecorder::end_boundary(BoundaryKind kind) {
  if (!carries_steps(kind)) return;
  const bool ends_step = kind == BoundaryKind::kTrainStep;
  for (MetricEntry* entry : table_.layout(MetricGroup::kTrain, Level::kStep)) {
    if (!entry->step_is_unshared && !entry->step_is_new) continue;
    keep_marked(*entry);
    entry->step_is_unshared = false;
    if (ends_step) entry->step_is_new = false;
  }
  if (ends_step) counts(MetricGroup::kTrain).step = 0;
}

std::int64_t MetricRecorder::batches(MetricGroup group, Level level) const {
  return level == Level::kStep ? counts(group).step : counts(group).epoch;
}

MetricEntry& MetricRecorder::entry_of(Hook hook, std::string_view name, const LogOptions& options, CallSite where) {
  const HookPolicy policy = hook_policy(hook);
  if (std::this_thread::get_id() != thread_) {
    misuse(hook, name, where,
           "another thread than the one that runs the hooks may not log; keep the value, and log it in the next hook");
  }
  if (!policy.may_log) misuse(hook, name, where, "metrics cannot be logged here; log in the hooks of a step or of an epoch");

  MetricKey key{hook, name, -1};
  const Scope& scope = scopes_.back();
  if (scope.in_batch && scope.batch.num_dataloaders > 1 && options.add_dataloader_idx &&
      group_of(hook) != MetricGroup::kTrain) {
    key.dataloader_idx = static_cast<std::int32_t>(scope.batch.dataloader_idx);
  }
  const MetricOptions resolved = resolve(options, policy);
  if (policy.epoch_only ? resolved.on_step || !resolved.on_epoch : !resolved.on_step && !resolved.on_epoch) {
    level_error(key, resolved, where);
  }
  MetricEntry* entry = table_.find(key);
  if (entry == nullptr) return new_entry(key, resolved, where);
  if (!(entry->options == resolved)) {
    misuse(hook, name, where,
           format("its options are {} here, but {} at {} on rank {}: give one key the same options everywhere, or log under "
                  "another name",
                  resolved.str(), entry->options.str(), entry->site, entry->site_rank));
  }
  return *entry;
}

MetricEntry& MetricRecorder::new_entry(const MetricKey& key, const MetricOptions& options, CallSite where) {
  check_name(key, where);
  return table_.add(key, options, where.str(), rank_);
}

double MetricRecorder::weight_of(const LogOptions& options, const MetricEntry& entry, CallSite where) const {
  const Scope& scope = scopes_.back();
  const std::int64_t weight = options.batch_size.value_or(scope.in_batch ? scope.batch.batch_size : 1);
  if (weight < 0) misuse(entry.hook, entry.name, where, format("batch_size is {}; it must not be negative", weight));
  return static_cast<double>(weight);
}

void MetricRecorder::keep_marked(MetricEntry& entry) {
  if (entry.marked == mark_) return;
  entry.marked = mark_;
  entry.at_mark = entry;
}

void MetricRecorder::set_step(MetricEntry& entry, const Slot& slot, std::shared_ptr<DeferredValue> deferred) {
  entry.step = slot;
  entry.deferred_step = std::move(deferred);
  entry.step_is_new = entry.step_is_unshared = true;
  entry.step_batch = counts(entry.group).run;
  // No boundary lies between the batches of an evaluation, so that its step values stay this rank's own.
  const bool is_reduced = entry.group == MetricGroup::kTrain && entry.options.step_is_reduced();
  if (world_size_ == 1 || !is_reduced) views_.show_step(entry, slot.value, entry.deferred_step);
}

void MetricRecorder::log(Hook hook, std::string_view name, double value, const LogOptions& options, CallSite where) {
  MetricEntry& entry = entry_of(hook, name, options, where);
  const double weight = weight_of(options, entry, where);
  if (!counts_here(entry)) return;
  keep_marked(entry);
  if (entry.options.on_step) set_step(entry, {value, weight});
  if (entry.options.on_epoch) entry.epoch.accumulate(entry.options.reduce, value, weight);
}

void MetricRecorder::log(Hook hook, std::string_view name, std::shared_ptr<DeferredValue> value, const LogOptions& options,
                         CallSite where) {
  MetricEntry& entry = entry_of(hook, name, options, where);
  const double weight = weight_of(options, entry, where);
  if (!counts_here(entry)) return;
  keep_marked(entry);
  const Reduce reduce = entry.options.reduce;
  if (entry.options.on_epoch) {
    // The weight is known here and now; the value follows when it is read.
    entry.epoch.accumulate(reduce, identity(reduce), weight);
    if (reduce != Reduce::kMean || weight > 0) {
      entry.deferred_epoch = value->added_to(entry.deferred_epoch, reduce, weight);
    }
  }
  if (entry.options.on_step) {
    value->keep();
    set_step(entry, {0, weight}, std::move(value));
  }
}

MetricMap MetricRecorder::local_step_row() const {
  MetricMap row;
  const MetricGroup group = scopes_.back().group;
  if (group == MetricGroup::kCount) return row;
  std::vector<MetricEntry*> entries;
  DeferredValues deferred;
  for (MetricEntry& entry : table_.entries()) {
    if (entry.group != group || !entry.options.logger || !entry.step.present() || entry.step_batch != counts(group).run)
      continue;
    entries.push_back(&entry);
    deferred.add(entry.deferred_step);
  }
  deferred.read();
  for (MetricEntry* entry : entries) {
    settle_step(*entry);
    row[entry->step_name] = entry->step.value;
  }
  return row;
}

MetricSnapshot MetricRecorder::save(MetricMoment moment) {
  const BatchCounts& count = counts(MetricGroup::kTrain);
  MetricSnapshot snapshot;
  snapshot.epoch_batches = count.epoch;
  snapshot.step_batches = count.step;
  const auto record_of = [&](MetricEntry& entry) -> MetricRecord& {
    const bool changed = moment == MetricMoment::kMark && entry.marked == mark_;
    return changed ? entry.at_mark : entry;
  };
  DeferredValues deferred;
  for (MetricEntry& entry : table_.entries()) {
    if (entry.group != MetricGroup::kTrain) continue;
    deferred.add(record_of(entry).deferred_step);
    deferred.add(record_of(entry).deferred_epoch);
  }
  deferred.read();
  for (MetricEntry& entry : table_.entries()) {
    MetricRecord& record = record_of(entry);
    if (entry.group != MetricGroup::kTrain || (!record.epoch.present() && !record.step.present())) continue;
    settle_step(record);
    settle_epoch(record, entry.options.reduce);
    snapshot.training.push_back(
        {{entry.hook, entry.dataloader_idx, entry.name, entry.options, entry.site, record.step, record.epoch},
         record.step_is_new,
         record.step_is_unshared,
         record.step_batch == count.run});
  }
  return snapshot;
}

void MetricRecorder::restore(const std::vector<MetricSnapshot>& by_rank) {
  reset(MetricGroup::kTrain);
  BatchCounts& count = counts(MetricGroup::kTrain);
  for (const MetricSnapshot& snapshot : by_rank) {
    count.epoch += snapshot.epoch_batches;
    count.step += snapshot.step_batches;
    for (const SavedMetric& saved : snapshot.training) restore(saved);
  }
}

void MetricRecorder::restore(const SavedMetric& saved) {
  const NewMetric& metric = saved.metric;
  const MetricKey key{metric.hook, metric.name, metric.dataloader_idx};
  MetricEntry* entry = table_.find(key);
  if (entry == nullptr) entry = &table_.add(key, metric.options, metric.site, rank_);
  if (!(entry->options == metric.options)) return;
  entry->epoch = joined(metric.options.reduce, entry->epoch, metric.epoch);
  entry->step = joined_step(metric.options.reduce, entry->step, metric.step);
  entry->step_is_new |= saved.step_is_new;
  entry->step_is_unshared |= saved.step_is_unshared;
  if (saved.of_last_batch) entry->step_batch = counts(MetricGroup::kTrain).run;
}

void settle_step(MetricRecord& record) {
  if (!record.deferred_step) return;
  record.step.value = record.deferred_step->read();
  record.deferred_step.reset();
}

void settle_epoch(MetricRecord& record, Reduce reduce) {
  if (!record.deferred_epoch) return;
  record.epoch.value = combine(reduce, record.epoch.value, record.deferred_epoch->read());
  record.deferred_epoch.reset();
}

}  // namespace levin::detail
