#include "levin/core/protocol/metric_store.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/conclusion.h"
#include "levin/core/protocol/object_batch.h"
#include "levin/core/protocol/saved_metric.h"

namespace levin {
using detail::Level;
using detail::LoaderOfMetric;
using detail::MetricEntry;
using detail::MetricGroup;
using detail::MetricKey;
using detail::MetricOptions;
using detail::MetricRecord;
using detail::Slot;

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

}  // namespace

/// A stage, and the batch that it works on.
struct StageInWork {
  Stage stage = Stage::kTrain;
  MetricGroup group = MetricGroup::kCount;
  std::optional<BatchScope> batch{};
};

struct BatchCounts {
  std::int64_t run = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

struct MetricStore::State {
  State(ControlGroup& its_group, Options its_options)
      : group(its_group), options(std::move(its_options)), exchange(group, table) {}

  StageInWork& now() { return stages.back(); }
  BatchCounts& counts(MetricGroup of) { return counts_by_group[static_cast<std::size_t>(of)]; }
  void reset(MetricGroup of);
  /// `object`: object_id() of whose value it is; 0: a number's.
  MetricEntry& entry_of(Hook hook, std::string_view name, const LogOptions& log_options, CallSite where,
                        std::uint32_t object = 0);
  double weight_of(const LogOptions& log_options, const MetricEntry& entry, CallSite where);
  bool counts_here(const MetricEntry& entry) const { return group.rank() == 0 || !entry.options.rank_zero_only; }
  /// `deferred`: the value itself, where it is still on a device.
  void log(Hook hook, std::string_view name, double value, std::shared_ptr<DeferredValue> deferred,
           const LogOptions& log_options, CallSite where);
  /// Of a metric object: its batch.
  void set_step(MetricEntry& entry, const Slot& slot, std::shared_ptr<DeferredValue> deferred = nullptr);
  /// A step's value is this rank's own, or that of the only one.
  bool shows_step_at_once(const MetricEntry& entry) const;
  /// Metric objects that are logged in training, or not logged as yet, in the order of names.
  std::vector<MetricObject*> training_objects();
  /// Called: after a boundary, when what it carries has been exchanged.
  void end_boundary(BoundaryKind kind);
  /// A metric of a snapshot; `batch`: of its metric object.
  void restore(const Value& value, const MetricState& batch);

  ControlGroup& group;
  Options options;
  detail::MetricTable table;
  detail::MetricViews views;
  detail::BoundaryExchange exchange;
  std::size_t coverage_warnings = 0;
  const std::thread::id thread = std::this_thread::get_id();
  std::vector<StageInWork> stages{StageInWork{}};  ///< the outermost is not a stage
  std::array<BatchCounts, detail::kMetricGroups + 1> counts_by_group{};
};

MetricStore::MetricStore(ControlGroup& group, Options options) : state_(std::make_unique<State>(group, std::move(options))) {}
MetricStore::~MetricStore() = default;

void MetricStore::clear() {
  hook_ = Hook::kNone;
  state_ = std::make_unique<State>(state_->group, std::move(state_->options));
}

void MetricStore::State::reset(MetricGroup of) {
  if (of == MetricGroup::kCount) return;
  table.reset(of);
  counts(of).epoch = counts(of).step = 0;
}

void MetricStore::begin_stage(Stage stage) {
  if (state_->stages.size() == 1) state_->views.restore({});
  state_->stages.push_back({.stage = stage, .group = detail::group_of(stage)});
  state_->reset(detail::group_of(stage));
}

void MetricStore::end_stage() {
  if (state_->stages.size() == 1) throw MisuseError("MetricStore::end_stage() without a stage that has begun");
  const StageInWork ended = state_->now();
  state_->stages.pop_back();
  if (ended.stage != Stage::kSanityCheck) return;
  state_->reset(ended.group);
  state_->views.restore({});
}

void MetricStore::begin_batch(const BatchScope& batch) {
  state_->now().batch = batch;
  BatchCounts& count = state_->counts(state_->now().group);
  ++count.run;
  // A rank that is out of data takes part in the batch of the others, and has nothing to log.
  if (batch.batch_size == 0) return;
  ++count.epoch;
  ++count.step;
  // Updates of batches that logged nothing are not part of this batch's step.
  for (const MetricEntry& entry : state_->table.entries()) {
    const bool has_steps = entry.object != nullptr && entry.is_logged_at(Level::kStep);
    if (has_steps && entry.group == state_->now().group) entry.object->batch_state();
  }
}

void MetricStore::end_batch() { state_->now().batch.reset(); }
void MetricStore::reset_epoch() { state_->reset(state_->now().group); }

MetricEntry& MetricStore::State::entry_of(Hook hook, std::string_view name, const LogOptions& log_options, CallSite where,
                                          std::uint32_t object) {
  const HookPolicy policy = hook_policy(hook);
  const std::int32_t loader = now().batch ? static_cast<std::int32_t>(now().batch->dataloader_idx) : LoaderOfMetric::kAny;
  if (std::this_thread::get_id() != thread) {
    misuse(hook, name, where, "only the thread that runs the hooks may log; store the value, and log it in the next hook");
  }
  if (!policy.may_log) misuse(hook, name, where, "metrics cannot be logged here; log in the hooks of a step or of an epoch");

  MetricKey key{hook, name, -1};
  if (now().batch && now().batch->num_dataloaders > 1 && log_options.add_dataloader_idx &&
      detail::group_of(hook) != MetricGroup::kTrain) {
    key.dataloader_idx = static_cast<std::int32_t>(now().batch->dataloader_idx);
  }
  MetricOptions resolved = detail::resolve(log_options, policy);
  resolved.object = object;
  if (!resolved.on_step && !resolved.on_epoch)
    misuse(hook, name, where, "on_step and on_epoch are both false, so the value would be dropped");
  if (policy.epoch_only && (resolved.on_step || !resolved.on_epoch))
    misuse(hook, name, where, "this hook runs once an epoch: on_step must be false and on_epoch true");
  MetricEntry* entry = table.find(key);
  if (entry == nullptr) {
    check_name(key, where);
    MetricEntry& added = table.add(key, resolved, where.str(), group.rank());
    added.loader.add(loader);
    return added;
  }
  if (!(entry->options == resolved)) {
    misuse(hook, name, where,
           format("its options are {} here, but {} at {} on rank {}: give one key the same options everywhere, or log under "
                  "another name",
                  resolved.str(), entry->options.str(), entry->site, entry->site_rank));
  }
  if (!entry->agreed) entry->loader.add(loader);
  return *entry;
}

double MetricStore::State::weight_of(const LogOptions& log_options, const MetricEntry& entry, CallSite where) {
  const std::int64_t weight = log_options.batch_size.value_or(now().batch ? now().batch->batch_size : 1);
  if (weight < 0) misuse(entry.hook, entry.name, where, format("batch_size is {}; it must not be negative", weight));
  return static_cast<double>(weight);
}

void MetricStore::State::set_step(MetricEntry& entry, const Slot& slot, std::shared_ptr<DeferredValue> deferred) {
  entry.step = slot;
  entry.deferred_step = std::move(deferred);
  if (entry.object != nullptr) entry.step_state = entry.object->batch_state();
  entry.step_is_new = entry.step_is_unshared = true;
  entry.step_batch = counts(entry.group).run;
  if (!shows_step_at_once(entry)) return;
  if (entry.object == nullptr) return views.show(entry, Level::kStep, slot.value, entry.deferred_step);
  const auto values = detail::batch_values(entry);
  for (std::size_t index = 0; index < values.size(); ++index) views.show(entry.values[index], Level::kStep, 0, values[index]);
}

bool MetricStore::State::shows_step_at_once(const MetricEntry& entry) const {
  // No boundary lies between the batches of an evaluation, so that its step values stay this rank's own.
  const bool is_reduced = entry.group == MetricGroup::kTrain && entry.options.is_reduced(Level::kStep);
  return group.size() == 1 || !is_reduced;
}

void MetricStore::State::log(Hook hook, std::string_view name, double value, std::shared_ptr<DeferredValue> deferred,
                             const LogOptions& log_options, CallSite where) {
  MetricEntry& entry = entry_of(hook, name, log_options, where);
  const double weight = weight_of(log_options, entry, where);
  if (!counts_here(entry)) return;
  const Reduce reduce = entry.options.reduce;
  if (entry.options.on_epoch) {
    // Of a deferred value the weight is known here and now; the value follows when it is read.
    entry.epoch.accumulate(reduce, deferred ? detail::identity(reduce) : value, weight);
    if (deferred && (reduce != Reduce::kMean || weight > 0)) {
      // A value that was read is put back with the values, so that a sum is the same to the bit whenever it is read.
      const double so_far = entry.deferred_epoch ? 0 : std::exchange(entry.epoch.value, detail::identity(reduce));
      entry.deferred_epoch = deferred->added_to(entry.deferred_epoch, reduce, weight, so_far);
    }
  }
  if (!entry.options.on_step) return;
  if (deferred) deferred->keep();
  set_step(entry, {value, weight}, std::move(deferred));
}

void MetricStore::log(std::string_view name, double value, const LogOptions& options, CallSite where) {
  state_->log(hook_, name, value, nullptr, options, where);
}

void MetricStore::log(std::string_view name, std::shared_ptr<DeferredValue> value, const LogOptions& options, CallSite where) {
  state_->log(hook_, name, 0, std::move(value), options, where);
}

void MetricStore::set_objects(const std::vector<MetricObject*>& objects) {
  try {
    state_->views.maps();  // some may still have to be computed
  } catch (const std::exception&) {
    // A failed GPU returns no numbers; its error has ended the run.
  }
  for (MetricObject* object : objects) {
    if (state_->table.find_object(detail::object_id(object->name())) != object) object->reset();
  }
  state_->table.set_objects(objects);
}

void MetricStore::log(std::string_view name, MetricObject& object, const LogOptions& options, CallSite where) {
  const std::uint32_t id = detail::object_id(object.name());
  if (state_->table.find_object(id) != &object) {
    misuse(hook_, name, where, "the module has no such metric object: make it with add_metric(), in the module's constructor");
  }
  if (options.reduce != Reduce::kMean || options.batch_size) {
    misuse(hook_, name, where, "a metric object defines its own reduction: remove reduce and batch_size");
  }
  MetricEntry& entry = state_->entry_of(hook_, name, options, where, id);
  if (entry.object != &object) {
    misuse(hook_, name, where, "the metric object of this name had another state before: give this one another name");
  }
  for (const MetricEntry& other : state_->table.entries()) {
    if (other.object != &object || other.group == entry.group) continue;
    misuse(hook_, name, where,
           format("its metric object is also logged in {} ({}), which has another epoch: make one for each stage",
                  hook_name(other.hook), other.site));
  }
  if (!state_->counts_here(entry)) return;
  if (entry.options.on_epoch) entry.epoch = {0, 0};
  if (entry.options.on_step) state_->set_step(entry, {0, 0});
}

BoundaryOutcome MetricStore::meet(const Boundary& boundary, const Votes& votes, const BoundaryPayload& payload) {
  State& state = *state_;
  const BatchCounts& count = state.counts(detail::group_of(boundary.stage));
  const std::int64_t batches = detail::level_of(boundary.kind) == Level::kStep ? count.step : count.epoch;
  const detail::Exchanged& exchanged = state.exchange.meet(boundary, hook_, votes, payload, batches);
  BoundaryOutcome outcome =
      detail::conclude(boundary, exchanged, state.group.rank(),
                       {state.options.strict_logging, state.options.warn, state.coverage_warnings}, state.views);
  state.end_boundary(boundary.kind);
  return outcome;
}

void MetricStore::State::end_boundary(BoundaryKind kind) {
  if (!detail::carries_steps(kind)) return;
  const bool ends_step = kind == BoundaryKind::kTrainStep;
  for (MetricEntry* entry : table.layout(MetricGroup::kTrain, Level::kStep)) {
    if (!entry->step_is_unshared && !entry->step_is_new) continue;
    entry->step_is_unshared = false;
    if (ends_step) entry->step_is_new = false;
  }
  if (ends_step) counts(MetricGroup::kTrain).step = 0;
}

bool MetricStore::is_of_loader(std::string_view name, std::int64_t loader) const {
  bool is_known = false;
  bool is_of_it = false;
  const auto visit = [&](const MetricEntry& entry, const MetricEntry& names) {
    if (name != names.step_name && name != names.epoch_name) return;
    is_known = true;
    is_of_it |= entry.loader.has(loader);
  };
  for (const MetricEntry& entry : state_->table.entries()) {
    if (!entry.is_of_object()) visit(entry, entry);
    for (const MetricEntry& value : entry.values) visit(entry, value);
  }
  return is_of_it || !is_known;
}

MetricMap MetricStore::local_step_row() const {
  MetricMap row;
  const MetricGroup group = state_->now().group;
  if (group == MetricGroup::kCount) return row;
  std::vector<MetricEntry*> entries;
  DeferredValues deferred;
  for (MetricEntry& entry : state_->table.entries()) {
    if (entry.group != group || !entry.options.logger || !entry.step.present() || entry.step_batch != state_->counts(group).run)
      continue;
    if (entry.is_of_object() && !entry.step_state) continue;
    entries.push_back(&entry);
    deferred.add(entry.deferred_step);
  }
  deferred.read();
  for (MetricEntry* entry : entries) {
    if (entry->object != nullptr) {
      const std::vector<double> values = entry->values_of(entry->step_state->read());
      for (std::size_t index = 0; index < values.size(); ++index) row[entry->values[index].step_name] = values[index];
      continue;
    }
    entry->settle(Level::kStep, entry->options.reduce);
    row[entry->step_name] = entry->step.value;
  }
  return row;
}

std::vector<MetricObject*> MetricStore::State::training_objects() {
  std::vector<MetricObject*> objects;
  for (const auto& [id, object] : table.objects()) {
    const auto is_of_evaluation = [object = object](const MetricEntry& entry) {
      return entry.object == object && entry.group != MetricGroup::kTrain;
    };
    if (std::ranges::none_of(table.entries(), is_of_evaluation)) objects.push_back(object);
  }
  std::ranges::sort(objects, {}, &MetricObject::name);
  return objects;
}

MetricSnapshot MetricStore::save() {
  const BatchCounts& count = state_->counts(MetricGroup::kTrain);
  DeferredValues deferred;
  for (MetricEntry& entry : state_->table.entries()) {
    if (entry.group != MetricGroup::kTrain) continue;
    deferred.add(entry.deferred_step);
    deferred.add(entry.deferred_epoch);
  }
  state_->views.add_waiting(deferred);
  deferred.read();
  MetricSnapshot snapshot{.maps = maps()};
  Value::List objects;
  for (MetricObject* object : state_->training_objects()) {
    objects.emplace_back(object->name());
    snapshot.states["epoch." + object->name()] = object->state();
    if (const auto all_ranks = object->all_ranks()) snapshot.states["all." + object->name()] = *all_ranks;
  }
  Value::List training;
  for (MetricEntry& entry : state_->table.entries()) {
    // An object's key has restarted, and so does the object, unless it has a value of this epoch.
    const bool is_kept = entry.object != nullptr || entry.epoch.present() || entry.step.present();
    if (entry.group != MetricGroup::kTrain || !is_kept) continue;
    for (const Level level : {Level::kStep, Level::kEpoch}) entry.settle(level, entry.options.reduce);
    if (entry.step_state) snapshot.states[format("step.{}", training.size())] = entry.step_state->read();
    training.push_back(detail::saved_metric(entry, /*of_last_batch=*/entry.step_batch == count.run));
  }
  snapshot.training = Value::Map{{"training", std::move(training)},
                                 {"objects", std::move(objects)},
                                 {"epoch_batches", count.epoch},
                                 {"step_batches", count.step}};
  return snapshot;
}

std::vector<HeldState> MetricStore::object_states() const {
  std::vector<HeldState> states;
  for (const auto& [id, object] : state_->table.objects()) states.emplace_back(*object);
  return states;
}

void MetricStore::restore(const std::vector<MetricSnapshot>& by_rank) {
  if (by_rank.empty()) return;
  state_->reset(MetricGroup::kTrain);
  // Those that no key is of yet, too.
  const std::vector<MetricObject*> objects = state_->training_objects();
  for (MetricObject* object : objects) object->reset();
  BatchCounts& count = state_->counts(MetricGroup::kTrain);
  for (const MetricSnapshot& snapshot : by_rank) {
    count.epoch += snapshot.training.at("epoch_batches").as_int();
    count.step += snapshot.training.at("step_batches").as_int();
    std::size_t index = 0;
    for (const Value& saved : snapshot.training.at("training").as_list()) {
      const auto batch = snapshot.states.find(format("step.{}", index++));
      state_->restore(saved, batch == snapshot.states.end() ? MetricState() : batch->second);
    }
    for (MetricObject* object : objects) {
      const auto saved = snapshot.states.find("epoch." + object->name());
      if (saved == snapshot.states.end()) continue;
      MetricState total = object->state();
      object->merge(total, saved->second);
      object->set_state(std::move(total));
    }
  }
  // They are the same on all ranks.
  for (MetricObject* object : objects) {
    const auto all_ranks = by_rank.front().states.find("all." + object->name());
    if (all_ranks == by_rank.front().states.end() || all_ranks->second.empty()) continue;
    object->show_all_ranks(std::make_shared<const MetricState>(all_ranks->second));
  }
  state_->views.restore(by_rank.front().maps);
}

void MetricStore::State::restore(const Value& value, const MetricState& batch) {
  const auto saved = detail::SavedMetric::read(value);
  if (!saved || detail::group_of(saved->hook) != MetricGroup::kTrain) return;
  if (saved->options.object != 0 && table.find_object(saved->options.object) == nullptr) return;  // the module has it no more
  const MetricKey key{saved->hook, saved->name, saved->dataloader_idx};
  MetricEntry* entry = table.find(key);
  if (entry == nullptr) entry = &table.add(key, saved->options, saved->site, group.rank());
  if (!(entry->options == saved->options)) return;
  saved->join(*entry, batch);
  if (saved->of_last_batch) entry->step_batch = counts(MetricGroup::kTrain).run;
}

const MetricMaps& MetricStore::maps() const { return state_->views.maps(); }
MetricMaps MetricStore::maps_at_hand() const { return state_->views.maps_at_hand(); }
void MetricStore::read_along(std::shared_ptr<DeferredValue> value) { state_->exchange.read_along(std::move(value)); }

std::optional<double> MetricStore::monitored(std::string_view name) const {
  if (state_->group.size() > 1) return state_->views.monitored(name);
  const auto found = callback_metrics().find(name);
  return found == callback_metrics().end() ? std::nullopt : std::optional(found->second);
}

void MetricStore::set_callback_metric(std::string_view name, double value) { state_->views.set(std::string(name), value); }
std::int64_t MetricStore::collectives() const { return state_->exchange.collectives(); }

}  // namespace levin
