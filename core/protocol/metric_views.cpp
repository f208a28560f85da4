#include "levin/core/protocol/metric_views.h"

#include <array>
#include <utility>

namespace levin {
namespace detail {

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
  if (place == nullptr) place = &(maps_.*kMaps[map])[entry.name_of(name)];
  *place = value;
  if (deferred) {
    waiting_[place] = deferred;
  } else if (!waiting_.empty()) {
    waiting_.erase(place);
  }
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
  ++generation_;
}

const MetricMaps& MetricViews::maps() {
  if (waiting_.empty()) return maps_;
  DeferredValues values;
  for (const auto& [place, value] : waiting_) values.add(value);
  values.read();
  for (const auto& [place, value] : waiting_) *place = value->read();
  waiting_.clear();
  return maps_;
}

std::optional<double> MetricViews::monitored(std::string_view name) const {
  const auto found = maps_.monitored.find(name);
  return found == maps_.monitored.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace detail

}  // namespace levin
