#include "levin/core/state/metric_section.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

constexpr std::string_view kMetrics = "metrics.";
/// The part of MetricSnapshot::states that ranks share: rank 0's is saved.
const std::string kAllRanks = "all.";

Value to_value(const MetricMap& metrics) {
  Value::Map map;
  for (const auto& [name, number] : metrics) map.emplace_back(name, number);
  return map;
}

MetricMap map_of(const Value& value) {
  MetricMap metrics;
  for (const auto& [name, number] : value.as_map()) metrics[name] = number.as_double();
  return metrics;
}

/// A state as tensors: its numbers, and how often it was updated, under the key; the bytes of its rows under `key.0`, ….
void save_metric_state(const std::string& key, const MetricState& state, std::map<std::string, at::Tensor>& tensors) {
  if (state.empty()) return;
  std::vector<double> numbers = state.numbers;
  numbers.push_back(static_cast<double>(state.updates));
  tensors[key] = at::tensor(numbers, at::kDouble);
  for (std::size_t list = 0; list < state.rows.size(); ++list) {
    const std::string& rows = state.rows[list];
    at::Tensor bytes = at::empty({static_cast<std::int64_t>(rows.size())}, at::kByte);
    if (!rows.empty()) std::memcpy(bytes.mutable_data_ptr(), rows.data(), rows.size());
    tensors[format("{}.{}", key, list)] = std::move(bytes);
  }
}

MetricState metric_state(const std::string& key, const Checkpoint& checkpoint) {
  MetricState state;
  const auto found = checkpoint.tensors.find(key);
  if (found == checkpoint.tensors.end()) return state;
  const at::Tensor numbers = found->second.to(at::kDouble).contiguous();
  const auto* const first = numbers.const_data_ptr<double>();
  state.numbers.assign(first, first + std::max<std::int64_t>(0, numbers.numel() - 1));
  state.updates = numbers.numel() == 0 ? 0 : static_cast<std::int64_t>(first[numbers.numel() - 1]);
  for (std::size_t list = 0;; ++list) {
    const auto rows = checkpoint.tensors.find(format("{}.{}", key, list));
    if (rows == checkpoint.tensors.end()) return state;
    const at::Tensor bytes = rows->second.contiguous();
    state.rows.emplace_back(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  }
}

/// "metrics.1.step.3", "metrics.1.epoch.accuracy": MetricSnapshot::states of rank 1.
std::string metric_key(int rank, const std::string& key) { return format("{}{}.{}", kMetrics, rank, key); }

constexpr std::array kSavedMaps = {std::pair("callback", &MetricMaps::callback), std::pair("logged", &MetricMaps::logged),
                                   std::pair("progress_bar", &MetricMaps::progress_bar),
                                   std::pair("monitored", &MetricMaps::monitored)};

Value save_metrics(const MetricSnapshot& snapshot, int rank, std::map<std::string, at::Tensor>& tensors) {
  for (const auto& [key, state] : snapshot.states) {
    if (rank == 0 || !key.starts_with(kAllRanks)) save_metric_state(metric_key(rank, key), state, tensors);
  }
  Value metrics = snapshot.training;
  for (const auto& [name, map] : kSavedMaps) metrics[name] = to_value(snapshot.maps.*map);
  return metrics;
}

MetricMaps saved_maps(const Value& metrics) {
  MetricMaps maps;
  for (const auto& [name, map] : kSavedMaps) maps.*map = map_of(metrics.at(name));
  return maps;
}

MetricSnapshot saved_metrics(const Value& metrics, const Checkpoint& checkpoint, int rank) {
  MetricSnapshot snapshot{.training = metrics, .maps = saved_maps(metrics)};
  const auto read = [&](const std::string& key, int of_rank) {
    snapshot.states[key] = metric_state(metric_key(of_rank, key), checkpoint);
  };
  const auto read_object = [&](const std::string& name) {
    read("epoch." + name, rank);
    read(kAllRanks + name, 0);
  };
  const Value::List& training = metrics.at("training").as_list();
  for (std::size_t index = 0; index < training.size(); ++index) {
    const std::string& object = training[index].at("object").as_string();
    if (object.empty()) continue;
    read(format("step.{}", index), rank);
    read_object(object);
  }
  for (const Value& object : metrics.at("objects").as_list()) read_object(object.as_string());
  return snapshot;
}

}  // namespace

std::shared_ptr<void> MetricSection::hold(TrainerState& run) {
  return held([&run, metrics = std::vector{run.metrics->save()}] { run.metrics->restore(metrics); });
}

void MetricSection::begin(TrainerState& run, Place place) {
  maps_.reset();
  metrics_.reset();
  // Values of a sanity check do not count.
  if (place == Place::kTrainStart) maps_.emplace();
  if (place == Place::kValidation) maps_ = run.metrics->maps();
  // Hooks that may log follow; after those of an end the records are dropped.
  if (has_hooks_of_start_or_end(place)) metrics_ = run.metrics->save();
}

void MetricSection::save_own(TrainerState& run, RankState& state) {
  MetricSnapshot metrics = metrics_ ? *metrics_ : run.metrics->save();
  if (maps_) metrics.maps = *maps_;
  state.manifest["metrics"] = save_metrics(metrics, run.strategy().rank(), state.tensors);
}

void MetricSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  loaded_.clear();
  if (values_of_rank(checkpoint, run.strategy().rank()) != nullptr) return;
  if (const Value* first = values_of_rank(checkpoint, 0)) loaded_.push_back({.maps = saved_maps(first->at("metrics"))});
}

void MetricSection::load_own(TrainerState&, const Checkpoint& checkpoint, int rank, const Value& values) {
  loaded_.push_back(saved_metrics(values.at("metrics"), checkpoint, rank));
}

void MetricSection::restore(TrainerState& run, Moment moment) {
  if (moment == Moment::kPlace) run.metrics->restore(loaded_);
}

std::shared_ptr<void> MetricObjectSection::hold(TrainerState& run) {
  return held([objects = run.metrics->object_states()] {
    for (const HeldState& object : objects) object.give_back();
  });
}

}  // namespace levin
