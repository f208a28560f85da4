#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/hook.h"
#include "levin/core/protocol/metric_state.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

struct Boundary;
enum class BoundaryKind : std::uint8_t;

/// A value that is not read yet, such as one on a GPU: it is accumulated there, and read at a boundary or on demand.
class DeferredValue {
 public:
  virtual ~DeferredValue() = default;
  /// Waits for the value, the first time, and gives it.
  virtual double read() = 0;
  /// Gives `total` with this value taken in: total + weight * value for a mean, total + value for a sum, the smaller or larger
  /// of both for min and max (NaN wins). A null total is `so_far`, the result of earlier ones. Computes where the
  /// values are and waits for none, so that an epoch costs one read(), however many steps it has. `total` stays unchanged.
  virtual std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce, double weight,
                                                  double so_far) = 0;
  /// The value is read after log() has returned, when the caller may have changed its source.
  virtual void keep() {}
  /// Waits once for all unread ones of `values`, this one included, that it can read together; their read() then does not wait.
  virtual void read_with(std::span<DeferredValue* const> values);
  /// Sends for the same, without waiting: known() gives each once it has arrived.
  virtual void send_for(std::span<DeferredValue* const> values);
  /// Unset until it has been read, or has arrived. Does not wait.
  virtual std::optional<double> known() { return std::nullopt; }
};

/// Values that are read with one wait, where that is possible.
class DeferredValues {
 public:
  /// Null: none.
  void add(const std::shared_ptr<DeferredValue>& value) {
    if (value) values_.push_back(value.get());
  }
  /// Waits for them; read() of each gives it then.
  void read();
  /// Does not wait; known() of each gives it once it has arrived.
  void send_for();

 private:
  /// Each once.
  std::span<DeferredValue* const> distinct();

  std::vector<DeferredValue*> values_;
};

/// A snapshot of a metric object, to restore it after another use. The object outlives it.
class HeldState {
 public:
  explicit HeldState(MetricObject& object) : object_(&object), state_(object.state()), all_ranks_(object.all_ranks()) {}
  void give_back() const {
    object_->set_state(state_);
    object_->show_all_ranks(all_ranks_);
  }

 private:
  MetricObject* object_;
  MetricState state_;
  std::shared_ptr<const MetricState> all_ranks_;
};

/// What users, monitors and bars see of the metrics.
struct MetricMaps {
  MetricMap callback;
  MetricMap logged;
  MetricMap progress_bar;
  MetricMap monitored;
};

namespace detail {

/// What a boundary is about: values of a step or of an epoch, which may become a row.
enum class Level : std::uint8_t { kNone, kStep, kEpoch };

/// What sync_dist says: nothing, true or false.
enum class SyncDist : std::uint8_t { kByLevel, kAlways, kNever };

/// LogOptions with the hook's defaults filled in: what must be equal for one key at every log(), on every rank.
struct MetricOptions {
  bool on_step = false;
  bool on_epoch = false;
  bool prog_bar = false;
  bool logger = true;
  bool rank_zero_only = false;
  bool per_rank = false;
  Reduce reduce = Reduce::kMean;
  SyncDist sync = SyncDist::kByLevel;
  std::uint32_t object = 0;  ///< which metric object the values are of (object_id()); 0: none

  bool operator==(const MetricOptions&) const = default;
  /// Logged both ways, and therefore under two names.
  bool forked() const { return on_step && on_epoch; }
  bool is_reduced(Level level) const {
    return !rank_zero_only && (sync == SyncDist::kAlways || (sync == SyncDist::kByLevel && level == Level::kEpoch));
  }
  /// "on_step=true, on_epoch=false, reduce=mean": the two levels and the reduction, and whatever is not the default.
  std::string str() const;

  /// All but the object.
  std::uint16_t pack() const;
  /// Unset when no options pack to `bits`.
  static std::optional<MetricOptions> unpack(std::uint16_t bits);
};

/// A number for a metric object by its name, never 0: the same on all ranks.
std::uint32_t object_id(std::string_view name);

/// Fills in what the user left open. Says nothing about whether the hook permits the result.
inline MetricOptions resolve(const LogOptions& options, const HookPolicy& policy) {
  return {.on_step = options.on_step.value_or(policy.default_on_step),
          .on_epoch = options.on_epoch.value_or(policy.default_on_epoch),
          .prog_bar = options.prog_bar,
          .logger = options.logger,
          .rank_zero_only = options.rank_zero_only,
          .per_rank = options.per_rank,
          .reduce = options.reduce,
          .sync = !options.sync_dist   ? SyncDist::kByLevel
                  : *options.sync_dist ? SyncDist::kAlways
                                       : SyncDist::kNever};
}

/// One value with its weight, as metrics are stored and sent. A negative weight means "not logged". For a step it is the value
/// itself. For an epoch it is, for a mean, the sum of value times weight; else the reduced value so far, with the number of
/// values as weight.
struct Slot {
  double value = 0;
  double weight = -1;

  bool present() const { return weight >= 0; }
  /// Takes one more value into an epoch's slot. A weight of 0 counts as logged and adds nothing to a mean.
  void accumulate(Reduce reduce, double new_value, double new_weight);
};

/// What a total starts with: 0, or the infinity that every value replaces.
double identity(Reduce reduce);
/// Two totals as one. NaN wins in min and max: on whichever rank it arose, it must show.
double combine(Reduce reduce, double left, double right);
/// The epoch values of two ranks as one; one that is not present leaves the other unchanged.
Slot joined(Reduce reduce, const Slot& one, const Slot& other);

/// One rank's own value of an epoch. NaN for a mean whose weights sum to 0. The slot is present.
double epoch_value(const Slot& slot, Reduce reduce);
/// One value from those slots, one a rank, that are present. Added up in the order of ranks: every rank gets the same bits.
double reduce_epoch(std::span<const Slot> by_rank, Reduce reduce);
double reduce_step(std::span<const Slot> by_rank, Reduce reduce);

/// Which metrics belong together: those of training, of validation (the sanity check's too), and of testing.
enum class MetricGroup : std::uint8_t { kTrain, kValidate, kTest, kCount };
constexpr std::size_t kMetricGroups = static_cast<std::size_t>(MetricGroup::kCount);
MetricGroup group_of(Hook hook);
/// kCount for predicting, which logs nothing.
MetricGroup group_of(Stage stage);

Level level_of(BoundaryKind kind);
/// Whether a boundary carries step values of training that are newer than the last one: where something is decided on them.
bool carries_steps(BoundaryKind kind);
/// Whether a boundary carries what a group's metrics have at a level.
bool carries(const Boundary& boundary, MetricGroup group, Level level);

/// The key of a metric. The same name in two hooks is two metrics.
struct MetricKey {
  Hook hook = Hook::kNone;
  std::string_view name;             ///< as the user gave it
  std::int32_t dataloader_idx = -1;  ///< -1: without a suffix
  bool operator==(const MetricKey&) const = default;
};
struct MetricKeyHash {
  std::size_t operator()(const MetricKey& key) const;
};

/// The entries of one metric in the views' maps, so that writing them costs no search: by map, and by name
/// (Level::kNone: the plain one). See MetricViews.
struct ViewCells {
  std::uint64_t generation = 0;
  std::array<std::array<double*, 3>, 4> places{};
};

/// Of which loader's batches an evaluation has logged a metric: one, or several, or none as in hooks of an epoch.
struct LoaderOfMetric {
  static constexpr std::int32_t kUnknown = -2;  ///< it was not logged
  static constexpr std::int32_t kAny = -1;      ///< of none, or of several
  std::int32_t index = kUnknown;

  void add(std::int32_t other) {
    if (other == kUnknown || other == index) return;
    index = index == kUnknown ? other : kAny;
  }
  bool has(std::int64_t loader) const { return index < 0 || index == loader; }
};

/// What one rank has recorded of a metric.
struct MetricRecord {
  Slot step;                                      ///< the last value logged in this epoch
  bool step_is_new = false;                       ///< it was logged after the last step boundary
  bool step_is_unshared = false;                  ///< it was logged after the last boundary that carries steps
  std::int64_t step_batch = -1;                   ///< in which batch it was logged, counted through the run
  Slot epoch;                                     ///< everything since the epoch began
  std::shared_ptr<DeferredValue> deferred_step;   ///< replaces step.value
  std::shared_ptr<DeferredValue> deferred_epoch;  ///< still to be taken into epoch.value
  std::shared_ptr<MetricStateReader> step_state;  ///< of a metric object: the batch that was logged last

  const std::shared_ptr<DeferredValue>& deferred(Level level) const {
    return level == Level::kStep ? deferred_step : deferred_epoch;
  }
  /// Moves the deferred value of a step or an epoch into its slot; waits for it unless it was read before.
  void settle(Level level, Reduce reduce);
};

/// What travels of a metric object: the numbers of its state, how long its lists of rows are, and this rank's own values.
struct ObjectLayout {
  std::uint32_t numbers = 0;
  std::uint32_t rows = 0;
  std::uint32_t values = 0;

  ObjectLayout() = default;
  /// Of an object that is logged under this name.
  ObjectLayout(const MetricObject& object, const std::string& name);
  bool operator==(const ObjectLayout&) const = default;
  /// "12 numbers, 0 lists of rows and 3 values"
  std::string str() const;
  /// How many numbers these are.
  std::size_t size() const { return std::size_t{numbers} + rows + values; }
  /// Slots in a frame: one that says whether it was logged, and how often it was updated; then two numbers each.
  std::size_t slots() const { return 1 + (size() + 1) / 2; }
};

/// One metric: its identity, what this rank has recorded of it, and whether the ranks have agreed on it.
struct MetricEntry : MetricRecord {
  MetricEntry(const MetricKey& key, const MetricOptions& options, std::string site, int site_rank);
  MetricEntry(const MetricEntry&) = delete;
  MetricEntry& operator=(const MetricEntry&) = delete;

  MetricKey key() const { return {hook, name, dataloader_idx}; }

  const Hook hook;
  const std::string name;
  const std::int32_t dataloader_idx;
  const MetricGroup group;
  MetricOptions options;
  std::string site;            ///< "digits.cpp:41": where it was first logged
  int site_rank = 0;           ///< by which rank
  LoaderOfMetric loader = {};  ///< for whose batches it was logged, as this rank knows, then all

  // The names that users and loggers see. step_name and epoch_name equal plain_name unless the key is forked.
  std::string plain_name;
  std::string step_name;
  std::string epoch_name;

  // Of a metric object, which options.object names.
  MetricObject* object = nullptr;                ///< null: the module that runs has none of that name
  std::deque<MetricEntry> values;                ///< one for each value, with its names
  ObjectLayout layout;                           ///< what travels
  std::shared_ptr<const MetricState> all_ranks;  ///< its state of this epoch, as ranks exchanged it last
  std::optional<std::int64_t> sent_changes;      ///< MetricObject::changes() of what this rank sent then; unset: nothing

  bool agreed = false;  ///< every rank knows it and it has a slot in the frames
  bool warned = false;  ///< the ranks that do not log it have been named

  ViewCells cells;

  bool is_of_object() const { return options.object != 0; }
  bool is_logged_at(Level level) const { return level == Level::kStep ? options.on_step : options.on_epoch; }
  bool is_due(const Boundary& boundary, Level level) const { return is_logged_at(level) && carries(boundary, group, level); }
  /// Room in a frame: the same from when it is agreed on.
  std::size_t slots() const { return is_of_object() ? layout.slots() : 1; }
  /// Makes it the metric of an object.
  void bind(MetricObject& its_object);
  /// The object's values of a state. Throws MisuseError when they are not as many as of an empty one.
  std::vector<double> values_of(const MetricState& state) const;

  /// kNone: the plain name.
  const std::string& name_of(Level level) const {
    return level == Level::kNone ? plain_name : level == Level::kStep ? step_name : epoch_name;
  }
};

/// All metrics that this rank knows of, and the order in which agreed ones travel.
class MetricTable {
 public:
  /// The metric objects of the module that runs.
  void set_objects(const std::vector<MetricObject*>& objects);
  MetricObject* find_object(std::uint32_t id) const;
  const std::unordered_map<std::uint32_t, MetricObject*>& objects() const { return objects_; }

  MetricEntry* find(const MetricKey& key);
  /// The key is not in the table.
  MetricEntry& add(const MetricKey& key, const MetricOptions& options, std::string site, int site_rank);
  /// Gives the metric its slot in the frames. Ranks: all, in the same order of metrics.
  void agree(MetricEntry& entry);

  std::deque<MetricEntry>& entries() { return entries_; }

  /// Metrics that only this rank knows of as yet, in the order of their first log().
  const std::vector<MetricEntry*>& new_entries() const { return new_entries_; }
  void clear_new_entries() { new_entries_.clear(); }

  /// The agreed metrics of one group that are logged at one level. Equal on all ranks.
  const std::vector<MetricEntry*>& layout(MetricGroup group, Level level) const;
  /// Visits what a boundary carries of the agreed metrics, in the order of its slots. Equal on all ranks.
  void for_each_due(const Boundary& boundary, const std::function<void(MetricEntry& entry, Level level)>& visit) const;
  /// How many slots a frame has: room for what any boundary carries. Depends on nothing but what is agreed, so that frames have
  /// one size on all ranks even when ranks meet in different boundaries.
  std::size_t frame_slots() const { return frame_slots_; }
  /// Fingerprint of everything agreed.
  std::uint64_t agreed_hash() const { return agreed_hash_.value(); }

  /// Forgets the values recorded in a group; metrics stay known.
  void reset(MetricGroup group);

 private:
  std::deque<MetricEntry> entries_;
  std::unordered_map<MetricKey, MetricEntry*, MetricKeyHash> by_key_;
  std::unordered_map<std::uint32_t, MetricObject*> objects_;
  std::vector<MetricEntry*> new_entries_;
  std::array<std::array<std::vector<MetricEntry*>, 2>, kMetricGroups> layouts_;  ///< by group; of steps, and of epochs
  std::array<std::array<std::size_t, 2>, kMetricGroups> layout_slots_{};         ///< of all of them together
  std::size_t frame_slots_ = 16;
  Fnv1aHash agreed_hash_;
};

/// The maps that users read. Values are written when they become known: reading is pure, but waits for those on a device.
class MetricViews {
 public:
  /// A value of a step or an epoch that this rank shows; the plain name of a forked key has the one that was shown last.
  /// `deferred` replaces `value` when it is read.
  void show(MetricEntry& entry, Level level, double value, const std::shared_ptr<DeferredValue>& deferred = nullptr);
  /// The value that monitors decide on: the same on all ranks.
  void decide(MetricEntry& entry, Level level, double value);
  /// A value that belongs to no log(): shown to callbacks and monitored.
  void set(const std::string& name, double value);
  /// Shows these values, and no others.
  void restore(MetricMaps maps);

  const MetricMaps& maps();
  /// Adds those that maps() waits for.
  void add_waiting(DeferredValues& values) const;
  /// The maps without those values that are still on a device: of these the newest that have arrived, if any. Waits for
  /// nothing, and sends for the others.
  MetricMaps maps_at_hand();
  std::optional<double> monitored(std::string_view name) const;

 private:
  using Deferred = std::shared_ptr<DeferredValue>;

  /// `map`: of MetricMaps, by its number.
  void put(MetricEntry& entry, std::size_t map, Level name, double value, const Deferred& deferred = nullptr);

  MetricMaps maps_;
  std::uint64_t generation_ = 1;                   ///< cells of an older one point into maps that have been cleared
  std::unordered_map<double*, Deferred> waiting_;  ///< values in the maps that are still on a device
  std::unordered_map<double*, Deferred> sent_for_;
  std::unordered_map<const double*, double> arrived_;  ///< of entries of waiting_, those of earlier steps
};

}  // namespace detail
}  // namespace levin
