#include "levin/core/protocol/saved_metric.h"

#include <array>
#include <memory>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/protocol/object_batch.h"

namespace levin::detail {

namespace {

/// The step values of two ranks as one.
Slot joined_step(Reduce reduce, const Slot& one, const Slot& other) {
  if (!one.present() || !other.present()) return one.present() ? one : other;
  const std::array<Slot, 2> both = {one, other};
  return {reduce_step(both, reduce), one.weight + other.weight};
}

Value slot_value(const Slot& slot) {
  return slot.present() ? Value(Value::List{Value(slot.value), Value(slot.weight)}) : Value();
}

Slot slot_of(const Value& value) {
  if (value.is_null()) return {};
  const Value::List& parts = value.as_list();
  if (parts.size() != 2) throw ConfigError("The checkpoint holds a metric that is not a value with a weight.");
  return {parts[0].as_double(), parts[1].as_double()};
}

/// kNone for a name that this build does not know.
Hook hook_of(const std::string& name) {
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    if (hook_name(static_cast<Hook>(index)) == name) return static_cast<Hook>(index);
  }
  return Hook::kNone;
}

}  // namespace

Value saved_metric(const MetricEntry& entry, bool of_last_batch) {
  return Value::Map{{"hook", hook_name(entry.hook)},
                    {"name", entry.name},
                    {"dataloader_idx", entry.dataloader_idx},
                    {"options", entry.options.pack()},
                    {"site", entry.site},
                    {"epoch", slot_value(entry.epoch)},
                    {"step", slot_value(entry.step)},
                    {"step_is_new", entry.step_is_new},
                    {"step_is_unshared", entry.step_is_unshared},
                    {"of_last_batch", of_last_batch},
                    {"object", entry.object == nullptr ? "" : entry.object->name()}};
}

std::optional<SavedMetric> SavedMetric::read(const Value& value) {
  const auto options = MetricOptions::unpack(static_cast<std::uint16_t>(value.at("options").as_int()));
  const Hook hook = hook_of(value.at("hook").as_string());
  if (!options || hook == Hook::kNone) return std::nullopt;
  SavedMetric saved{.hook = hook,
                    .name = value.at("name").as_string(),
                    .dataloader_idx = static_cast<std::int32_t>(value.at("dataloader_idx").as_int()),
                    .options = *options,
                    .site = value.at("site").as_string(),
                    .epoch = slot_of(value.at("epoch")),
                    .step = slot_of(value.at("step")),
                    .step_is_new = value.at("step_is_new").as_bool(),
                    .step_is_unshared = value.at("step_is_unshared").as_bool(),
                    .of_last_batch = value.at("of_last_batch").as_bool()};
  const std::string& object = value.at("object").as_string();
  if (!object.empty()) saved.options.object = object_id(object);
  return saved;
}

void SavedMetric::join(MetricEntry& entry, const MetricState& batch) const {
  entry.epoch = joined(options.reduce, entry.epoch, epoch);
  // What one of several ranks has logged since the last row is not mixed with what is older of another.
  if (step_is_new && !entry.step_is_new) {
    entry.step = {};
    entry.step_state.reset();
  }
  // The metric object may have been made with other options since.
  const bool fits = batch.empty() || (batch.numbers.size() == entry.layout.numbers && batch.rows.size() == entry.layout.rows);
  if (step.present() && fits && (step_is_new || !entry.step_is_new)) {
    if (entry.object != nullptr) {
      MetricState total = entry.step_state ? entry.step_state->read() : entry.object->empty_state();
      entry.object->merge(total, batch);
      entry.step_state = std::make_shared<KnownState>(std::move(total));
    }
    entry.step = joined_step(options.reduce, entry.step, step);
  }
  entry.step_is_new |= step_is_new;
  entry.step_is_unshared |= step_is_unshared;
}

}  // namespace levin::detail
