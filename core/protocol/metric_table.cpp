#include "levin/core/protocol/metric_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/frame.h"

namespace levin {

void DeferredValue::read_with(std::span<DeferredValue* const>) {}
void DeferredValue::send_for(std::span<DeferredValue* const>) {}

std::span<DeferredValue* const> DeferredValues::distinct() {
  std::sort(values_.begin(), values_.end());
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  return values_;
}

void DeferredValues::read() {
  const auto values = distinct();
  if (values.size() < 2) return;
  for (DeferredValue* value : values) value->read_with(values);
}

void DeferredValues::send_for() {
  const auto values = distinct();
  for (DeferredValue* value : values) value->send_for(values);
}

namespace detail {

namespace {
/// Of the layouts of a group.
std::size_t index_of(Level level) { return level == Level::kEpoch ? 1 : 0; }
}  // namespace

double identity(Reduce reduce) {
  if (reduce == Reduce::kMin) return std::numeric_limits<double>::infinity();
  if (reduce == Reduce::kMax) return -std::numeric_limits<double>::infinity();
  return 0;
}

double combine(Reduce reduce, double left, double right) {
  if (reduce == Reduce::kMean || reduce == Reduce::kSum) return left + right;
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<double>::quiet_NaN();
  return (reduce == Reduce::kMin) == (right < left) ? right : left;
}

void Slot::accumulate(Reduce reduce, double new_value, double new_weight) {
  if (!present()) *this = {identity(reduce), 0};
  if (reduce != Reduce::kMean) {
    value = combine(reduce, value, new_value);
    weight += 1;
    return;
  }
  // Not computed for weight 0: 0 * NaN would spoil a mean to which this value does not belong.
  if (new_weight > 0) value += new_value * new_weight;
  weight += new_weight;
}

Slot joined(Reduce reduce, const Slot& one, const Slot& other) {
  if (!one.present() || !other.present()) return one.present() ? one : other;
  return {combine(reduce, one.value, other.value), one.weight + other.weight};
}

double epoch_value(const Slot& slot, Reduce reduce) {
  if (reduce != Reduce::kMean) return slot.value;
  return slot.weight > 0 ? slot.value / slot.weight : std::numeric_limits<double>::quiet_NaN();
}

double reduce_epoch(std::span<const Slot> by_rank, Reduce reduce) {
  Slot total;
  for (const Slot& slot : by_rank) total = joined(reduce, total, slot);
  return epoch_value(total, reduce);
}

double reduce_step(std::span<const Slot> by_rank, Reduce reduce) {
  Slot total;
  int present = 0;
  double only = 0;
  for (const Slot& slot : by_rank) {
    if (!slot.present()) continue;
    total.accumulate(reduce, slot.value, slot.weight);
    only = slot.value;
    ++present;
  }
  // v * w / w need not be v again.
  return present == 1 ? only : epoch_value(total, reduce);
}

MetricGroup group_of(Stage stage) {
  if (stage == Stage::kTrain) return MetricGroup::kTrain;
  if (stage == Stage::kTest) return MetricGroup::kTest;
  return stage == Stage::kPredict ? MetricGroup::kCount : MetricGroup::kValidate;
}

MetricGroup group_of(Hook hook) { return group_of(hook_stage(hook)); }

Level level_of(BoundaryKind kind) {
  if (kind == BoundaryKind::kTrainStep) return Level::kStep;
  return kind == BoundaryKind::kEpochReached || kind == BoundaryKind::kEpochEnd ? Level::kEpoch : Level::kNone;
}

bool carries_steps(BoundaryKind kind) { return kind == BoundaryKind::kDecision || level_of(kind) != Level::kNone; }

bool carries(const Boundary& boundary, MetricGroup group, Level level) {
  if (level == Level::kStep) return group == MetricGroup::kTrain && carries_steps(boundary.kind);
  return level == Level::kEpoch && level_of(boundary.kind) == level && group == group_of(boundary.stage);
}

std::size_t MetricKeyHash::operator()(const MetricKey& key) const {
  const std::size_t place = static_cast<std::size_t>(key.hook) << 32 ^ static_cast<std::uint32_t>(key.dataloader_idx);
  return std::hash<std::string_view>()(key.name) ^ place * 0x9e3779b97f4a7c15ull;
}

void MetricRecord::settle(Level level, Reduce reduce) {
  auto& deferred = level == Level::kStep ? deferred_step : deferred_epoch;
  if (!deferred) return;
  if (level == Level::kStep) step.value = deferred->read();
  if (level == Level::kEpoch) epoch.value = combine(reduce, epoch.value, deferred->read());
  deferred.reset();
}

MetricEntry::MetricEntry(const MetricKey& key, const MetricOptions& its_options, std::string its_site, int its_site_rank)
    : hook(key.hook),
      name(key.name),
      dataloader_idx(key.dataloader_idx),
      group(group_of(key.hook)),
      options(its_options),
      site(std::move(its_site)),
      site_rank(its_site_rank) {
  const std::string suffix = dataloader_idx < 0 ? "" : format("/dataloader_idx_{}", dataloader_idx);
  plain_name = name + suffix;
  step_name = options.forked() ? format("{}_step{}", name, suffix) : plain_name;
  epoch_name = options.forked() ? format("{}_epoch{}", name, suffix) : plain_name;
}

ObjectLayout::ObjectLayout(const MetricObject& object, const std::string& name) {
  const auto count = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  const MetricState empty = object.empty_state();
  numbers = count(empty.numbers);
  rows = count(empty.rows);
  values = count(object.value_names(name));
}

void MetricEntry::bind(MetricObject& its_object) {
  object = &its_object;
  layout = ObjectLayout(its_object, name);
  values.clear();
  for (const std::string& value_name : its_object.value_names(name)) {
    values.emplace_back(MetricKey{hook, value_name, dataloader_idx}, options, site, site_rank);
  }
}

std::vector<double> MetricEntry::values_of(const MetricState& state) const {
  std::vector<double> computed = object->values_of(state);
  if (computed.size() == values.size()) return computed;
  throw MisuseError(
      format("the metric object {}, logged as \"{}\" ({}), computes {} values of its state, but {} of an empty one: compute() "
             "must return the same number for every state.",
             quoted_text(object->name()), plain_name, site, computed.size(), values.size()));
}

std::string ObjectLayout::str() const { return format("{} numbers, {} lists of rows and {} values", numbers, rows, values); }

void MetricTable::set_objects(const std::vector<MetricObject*>& objects) {
  objects_.clear();
  for (MetricObject* object : objects) {
    const auto [other, is_new] = objects_.emplace(object_id(object->name()), object);
    if (is_new) continue;
    throw MisuseError(format("two metric objects of a module cannot be distinguished by their names, {} and {}: rename one.",
                             quoted_text(other->second->name()), quoted_text(object->name())));
  }
  for (MetricEntry& entry : entries_) {
    MetricObject* const object = entry.is_of_object() ? find_object(entry.options.object) : nullptr;
    if (entry.object == object) continue;
    entry.object = nullptr;
    static_cast<MetricRecord&>(entry) = {};
    entry.all_ranks.reset();
    if (object != nullptr && ObjectLayout(*object, entry.name) == entry.layout) entry.bind(*object);
  }
}

MetricObject* MetricTable::find_object(std::uint32_t id) const {
  const auto found = objects_.find(id);
  return found == objects_.end() ? nullptr : found->second;
}

MetricEntry* MetricTable::find(const MetricKey& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

MetricEntry& MetricTable::add(const MetricKey& key, const MetricOptions& options, std::string site, int site_rank) {
  MetricEntry& entry = entries_.emplace_back(key, options, std::move(site), site_rank);
  if (MetricObject* object = find_object(options.object)) entry.bind(*object);
  by_key_.emplace(entry.key(), &entry);
  new_entries_.push_back(&entry);
  return entry;
}

void MetricTable::agree(MetricEntry& entry) {
  entry.agreed = true;
  const auto group = static_cast<std::size_t>(entry.group);
  for (const Level level : {Level::kStep, Level::kEpoch}) {
    if (!entry.is_logged_at(level)) continue;
    layouts_[group][index_of(level)].push_back(&entry);
    layout_slots_[group][index_of(level)] += entry.slots();
  }
  std::size_t epoch_slots = 0;
  for (const auto& slots : layout_slots_) epoch_slots = std::max(epoch_slots, slots[1]);
  // Doubling: the size of frames changes seldom, and buffers with it.
  while (frame_slots_ < layout_slots_[static_cast<std::size_t>(MetricGroup::kTrain)][0] + epoch_slots) frame_slots_ *= 2;
  agreed_hash_.add_number(entry.hook);
  agreed_hash_.add({entry.plain_name.c_str(), entry.plain_name.size() + 1});
  agreed_hash_.add_number(entry.options.pack());
  agreed_hash_.add_number(entry.options.object);
  agreed_hash_.add_number(entry.layout);
}

const std::vector<MetricEntry*>& MetricTable::layout(MetricGroup group, Level level) const {
  static const std::vector<MetricEntry*> kNothing;
  if (group == MetricGroup::kCount || level == Level::kNone) return kNothing;
  return layouts_[static_cast<std::size_t>(group)][index_of(level)];
}

void MetricTable::for_each_due(const Boundary& boundary, const std::function<void(MetricEntry&, Level)>& visit) const {
  for (const auto& [group, level] :
       {std::pair(MetricGroup::kTrain, Level::kStep), std::pair(group_of(boundary.stage), Level::kEpoch)}) {
    if (!carries(boundary, group, level)) continue;
    for (MetricEntry* entry : layout(group, level)) visit(*entry, level);
  }
}

void MetricTable::reset(MetricGroup group) {
  for (MetricEntry& entry : entries_) {
    if (entry.group != group) continue;
    const std::int64_t step_batch = entry.step_batch;
    static_cast<MetricRecord&>(entry) = {};
    entry.all_ranks.reset();
    entry.sent_changes.reset();
    if (entry.object != nullptr) entry.object->reset();
    entry.step_batch = step_batch;
  }
}

std::uint32_t object_id(std::string_view name) {
  Fnv1aHash hash;
  hash.add(name);
  return static_cast<std::uint32_t>(hash.value()) | 1U;
}

std::string MetricOptions::str() const {
  std::string text = format("on_step={}, on_epoch={}, reduce={}", on_step, on_epoch, reduce_name(reduce));
  if (prog_bar) text += ", prog_bar=true";
  if (!logger) text += ", logger=false";
  if (sync != SyncDist::kByLevel) text += format(", sync_dist={}", sync == SyncDist::kAlways);
  if (rank_zero_only) text += ", rank_zero_only=true";
  if (per_rank) text += ", per_rank=true";
  if (object != 0) text += ", of a metric object";
  return text;
}

namespace {
/// The options that are a bit each, from the lowest.
constexpr std::array kOptionFlags = {&MetricOptions::on_step, &MetricOptions::on_epoch,       &MetricOptions::prog_bar,
                                     &MetricOptions::logger,  &MetricOptions::rank_zero_only, &MetricOptions::per_rank};
}  // namespace

std::uint16_t MetricOptions::pack() const {
  static_assert(kReductions <= 4, "two bits hold it");
  int bits = static_cast<int>(reduce) << 6 | static_cast<int>(sync) << 8;
  for (std::size_t bit = 0; bit < kOptionFlags.size(); ++bit) bits |= int{this->*kOptionFlags[bit]} << bit;
  return static_cast<std::uint16_t>(bits);
}

std::optional<MetricOptions> MetricOptions::unpack(std::uint16_t bits) {
  MetricOptions options{.reduce = static_cast<Reduce>(bits >> 6 & 3), .sync = static_cast<SyncDist>(bits >> 8 & 3)};
  for (std::size_t bit = 0; bit < kOptionFlags.size(); ++bit) options.*kOptionFlags[bit] = (bits >> bit & 1) != 0;
  if (options.pack() != bits || options.sync > SyncDist::kNever) return std::nullopt;
  return options;
}

namespace {

constexpr std::array kMaps = {&MetricMaps::callback, &MetricMaps::logged, &MetricMaps::progress_bar, &MetricMaps::monitored};
enum : std::size_t { kCallback, kLogged, kProgressBar, kMonitored };

/// Callbacks see a training step's values; of an evaluation they see the epoch's alone, as in Lightning.
bool is_for_callbacks(const MetricEntry& entry, Level level) {
  return level == Level::kEpoch || entry.group == MetricGroup::kTrain;
}

}  // namespace

void MetricViews::put(MetricEntry& entry, std::size_t map, Level name, double value, const Deferred& deferred) {
  if (entry.cells.generation != generation_) entry.cells = {.generation = generation_};
  double*& place = entry.cells.places[map][static_cast<std::size_t>(name)];
  const bool is_new = place == nullptr;
  if (is_new) place = &(maps_.*kMaps[map])[entry.name_of(name)];
  if (deferred) {
    const auto [waiting, waits_since_now] = waiting_.try_emplace(place, deferred);
    const auto last = waits_since_now ? std::optional(*place) : std::exchange(waiting->second, deferred)->known();
    if (last && !is_new) arrived_[place] = *last;
  } else if (!waiting_.empty()) {
    waiting_.erase(place);
  }
  *place = value;
}

void MetricViews::show(MetricEntry& entry, Level level, double value, const Deferred& deferred) {
  if (is_for_callbacks(entry, level)) {
    put(entry, kCallback, Level::kNone, value, deferred);
    if (entry.options.forked()) put(entry, kCallback, level, value, deferred);
  }
  if (entry.options.logger) put(entry, kLogged, level, value, deferred);
  if (entry.options.prog_bar) put(entry, kProgressBar, level, value, deferred);
}

void MetricViews::decide(MetricEntry& entry, Level level, double value) {
  if (!is_for_callbacks(entry, level)) return;
  put(entry, kMonitored, Level::kNone, value);
  if (entry.options.forked()) put(entry, kMonitored, level, value);
}

void MetricViews::set(const std::string& name, double value) {
  for (MetricMap* map : {&maps_.callback, &maps_.monitored}) {
    double& place = (*map)[name];
    place = value;
    waiting_.erase(&place);
  }
}

void MetricViews::restore(MetricMaps maps) {
  maps_ = std::move(maps);
  waiting_.clear();
  sent_for_.clear();
  arrived_.clear();
  ++generation_;
}

void MetricViews::add_waiting(DeferredValues& values) const {
  for (const auto& [place, value] : waiting_) values.add(value);
}

const MetricMaps& MetricViews::maps() {
  if (waiting_.empty()) return maps_;
  DeferredValues values;
  add_waiting(values);
  values.read();
  for (const auto& [place, value] : waiting_) *place = value->read();
  waiting_.clear();
  return maps_;
}

MetricMaps MetricViews::maps_at_hand() {
  std::erase_if(sent_for_, [&](const auto& sent) {
    const std::optional<double> number = sent.second->known();
    if (number) arrived_[sent.first] = *number;
    return number.has_value();
  });
  MetricMaps at_hand;
  for (const auto map : kMaps) {
    for (const auto& [name, number] : maps_.*map) {
      const auto waiting = waiting_.find(const_cast<double*>(&number));
      if (waiting == waiting_.end()) {
        (at_hand.*map)[name] = number;
      } else if (const auto known = waiting->second->known()) {
        (at_hand.*map)[name] = *known;
      } else if (const auto arrived = arrived_.find(&number); arrived != arrived_.end()) {
        (at_hand.*map)[name] = arrived->second;
      }
    }
  }
  // One at a time: a device that is far behind is not given more to do.
  if (!sent_for_.empty()) return at_hand;
  DeferredValues values;
  for (const auto& [place, value] : waiting_) {
    if (value->known()) continue;
    values.add(value);
    sent_for_.emplace(place, value);
  }
  values.send_for();
  return at_hand;
}

std::optional<double> MetricViews::monitored(std::string_view name) const {
  const auto found = maps_.monitored.find(name);
  return found == maps_.monitored.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace detail
}  // namespace levin
