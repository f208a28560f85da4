#include "levin/core/protocol/metric_views.h"

#include <string>
#include <utility>

namespace levin::detail {

namespace {

// Callbacks see a training step's values; of an evaluation they see the epoch's alone, as in Lightning.
bool callbacks_see_steps(const MetricEntry& entry) { return entry.group == MetricGroup::kTrain; }

}  // namespace

ViewCells& MetricViews::cells_of(MetricEntry& entry) {
  if (entry.cells.generation != generation_) entry.cells = {.generation = generation_};
  return entry.cells;
}

void MetricViews::put(MetricMap& map, double*& cell, const std::string& name, double value, const Deferred& deferred) {
  if (cell == nullptr) cell = &map[name];
  *cell = value;
  if (deferred) {
    waiting_[cell] = deferred;
  } else if (!waiting_.empty()) {
    waiting_.erase(cell);
  }
}

void MetricViews::read_waiting() {
  if (waiting_.empty()) return;
  DeferredValues values;
  for (const auto& [cell, value] : waiting_) values.add(value);
  values.read();
  for (const auto& [cell, value] : waiting_) *cell = value->read();
  waiting_.clear();
}

void MetricViews::show_step(MetricEntry& entry, double value, const Deferred& deferred) {
  ViewCells& cells = cells_of(entry);
  if (callbacks_see_steps(entry)) {
    put(callback_, cells.callback_plain, entry.plain_name, value, deferred);
    if (entry.options.forked()) put(callback_, cells.callback_step, entry.step_name, value, deferred);
  }
  if (entry.options.logger) put(logged_, cells.logged_step, entry.step_name, value, deferred);
  if (entry.options.prog_bar) put(progress_bar_, cells.bar_step, entry.step_name, value, deferred);
}

void MetricViews::show_epoch(MetricEntry& entry, double value) {
  ViewCells& cells = cells_of(entry);
  put(callback_, cells.callback_plain, entry.plain_name, value);
  if (entry.options.forked()) put(callback_, cells.callback_epoch, entry.epoch_name, value);
  if (entry.options.logger) put(logged_, cells.logged_epoch, entry.epoch_name, value);
  if (entry.options.prog_bar) put(progress_bar_, cells.bar_epoch, entry.epoch_name, value);
}

void MetricViews::decide_step(MetricEntry& entry, double value) {
  if (!callbacks_see_steps(entry)) return;
  ViewCells& cells = cells_of(entry);
  put(monitored_, cells.monitored_plain, entry.plain_name, value);
  if (entry.options.forked()) put(monitored_, cells.monitored_step, entry.step_name, value);
}

void MetricViews::decide_epoch(MetricEntry& entry, double value) {
  ViewCells& cells = cells_of(entry);
  put(monitored_, cells.monitored_plain, entry.plain_name, value);
  if (entry.options.forked()) put(monitored_, cells.monitored_epoch, entry.epoch_name, value);
}

void MetricViews::set(std::string_view name, double value) {
  double* cell = nullptr;
  put(callback_, cell, std::string(name), value);
  monitored_.insert_or_assign(std::string(name), value);
}

std::optional<double> MetricViews::monitored(std::string_view name) const {
  const auto found = monitored_.find(name);
  if (found == monitored_.end()) return std::nullopt;
  return found->second;
}

void MetricViews::clear() { restore({}); }

void MetricViews::restore(MetricMaps maps) {
  callback_ = std::move(maps.callback);
  logged_ = std::move(maps.logged);
  progress_bar_ = std::move(maps.progress_bar);
  monitored_ = std::move(maps.monitored);
  waiting_.clear();
  ++generation_;
}

}  // namespace levin::detail
