#include "levin/core/engine/resume/metric_state.h"

#include <optional>
#include <utility>

#include "levin/core/protocol/metric_table.h"

namespace levin {

namespace {

Hook hook_of(const std::string& name) {
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    if (hook_name(static_cast<Hook>(index)) == name) return static_cast<Hook>(index);
  }
  return Hook::kNone;
}

Value to_value(const detail::Slot& slot) {
  return slot.present() ? Value(Value::List{Value(slot.value), Value(slot.weight)}) : Value();
}

detail::Slot slot_of(const Value& value) {
  if (value.is_null()) return {};
  const Value::List& parts = value.as_list();
  if (parts.size() != 2) throw ConfigError("The checkpoint holds a metric that is no value with its weight.");
  return {parts[0].as_double(), parts[1].as_double()};
}

Value to_value(const SavedMetric& saved) {
  const detail::NewMetric& metric = saved.metric;
  return Value(Value::Map{{"hook", Value(hook_name(metric.hook))},
                          {"name", Value(metric.name)},
                          {"dataloader_idx", Value(static_cast<std::int64_t>(metric.dataloader_idx))},
                          {"options", Value(static_cast<std::int64_t>(metric.options.pack()))},
                          {"site", Value(metric.site)},
                          {"epoch", to_value(metric.epoch)},
                          {"step", to_value(metric.step)},
                          {"step_is_new", Value(saved.step_is_new)},
                          {"step_is_unshared", Value(saved.step_is_unshared)},
                          {"of_last_batch", Value(saved.of_last_batch)}});
}

/// Unset when this build does not know the hook or the options.
std::optional<SavedMetric> metric_of(const Value& value) {
  const auto options = detail::MetricOptions::unpack(static_cast<std::uint16_t>(value.at("options").as_int()));
  const Hook hook = hook_of(value.at("hook").as_string());
  if (!options || hook == Hook::kNone || detail::group_of(hook) != detail::MetricGroup::kTrain) return std::nullopt;
  SavedMetric saved;
  saved.metric = {hook,
                  static_cast<std::int32_t>(value.at("dataloader_idx").as_int()),
                  value.at("name").as_string(),
                  *options,
                  value.at("site").as_string(),
                  slot_of(value.at("step")),
                  slot_of(value.at("epoch"))};
  saved.step_is_new = value.at("step_is_new").as_bool();
  // An earlier levin knew rows only.
  const Value* unshared = value.find("step_is_unshared");
  saved.step_is_unshared = unshared == nullptr ? saved.step_is_new : unshared->as_bool();
  saved.of_last_batch = value.at("of_last_batch").as_bool();
  return saved;
}

Value to_value(const MetricMap& metrics) {
  Value value(Value::Map{});
  for (const auto& [name, number] : metrics) value.as_map().emplace_back(name, Value(number));
  return value;
}

MetricMap map_of(const Value& value) {
  MetricMap metrics;
  for (const auto& [name, number] : value.as_map()) metrics[name] = number.as_double();
  return metrics;
}

}  // namespace

Value to_value(const MetricSnapshot& snapshot) {
  Value training(Value::List{});
  for (const SavedMetric& saved : snapshot.training) training.push_back(to_value(saved));
  return Value(Value::Map{{"training", std::move(training)},
                          {"epoch_batches", Value(snapshot.epoch_batches)},
                          {"step_batches", Value(snapshot.step_batches)},
                          {"callback", to_value(snapshot.maps.callback)},
                          {"logged", to_value(snapshot.maps.logged)},
                          {"progress_bar", to_value(snapshot.maps.progress_bar)},
                          {"monitored", to_value(snapshot.maps.monitored)}});
}

MetricSnapshot metric_snapshot(const Value& value) {
  MetricSnapshot snapshot;
  for (const Value& saved : value.at("training").as_list()) {
    if (auto metric = metric_of(saved)) snapshot.training.push_back(std::move(*metric));
  }
  snapshot.epoch_batches = value.at("epoch_batches").as_int();
  snapshot.step_batches = value.at("step_batches").as_int();
  snapshot.maps = {map_of(value.at("callback")), map_of(value.at("logged")), map_of(value.at("progress_bar")),
                   map_of(value.at("monitored"))};
  return snapshot;
}

}  // namespace levin
