#include "levin/core/state/rank_state.h"

#include <ATen/core/Dict.h>

#include <array>
#include <string_view>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/run/pickled_values.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/parameter_state.h"

namespace levin {

namespace {

// What a checkpoint has of rank R, as tensors:
//
//     rng.R.cpu, rng.R.<accelerator>, rng.R.own         states of generators, as bytes
//     rng.R.read, rng.R.read.<accelerator>, …           the same, before the batch was read that lies ready
//     rng.shared, rng.seed                              of all ranks
//     gradients.R.<parameter>                           that wait for more batches
//     metrics.R.step.<n>                                the metric object of the nth metric: of the batch that was logged last
//     metrics.R.epoch.<object>                          the same of the epoch: numbers, then the count of updates; rows in ….0,
//     ….1 metrics.0.all.<object>                            what compute() sees of all ranks
//
// and in the manifest, under ranks.R, what own_values() names.
constexpr const char* kRanks = "ranks";
constexpr const char* kRandom = "rng.";
constexpr const char* kGradients = "gradients.";
constexpr const char* kMetrics = "metrics.";
/// Of MetricSnapshot::states, what ranks have alike: rank 0's are saved.
const std::string kAllRanks = "all.";

/// "rng.1.cpu", "rng.1.cuda", "rng.1.own"; "rng.shared" and "rng.seed", which ranks have together.
std::string random_key(const Strategy& strategy, int rank, std::string_view name) {
  if (name == "shared" || name == "seed") return format("{}{}", kRandom, name);
  return format("{}{}.{}", kRandom, rank, name == "device" ? strategy.accelerator().name() : name);
}

/// "rng.1.read", "rng.1.read.own": BeforeReading::random.
std::string reading_key(int rank, std::string_view name) {
  return name == "cpu" ? format("{}{}.read", kRandom, rank) : format("{}{}.read.{}", kRandom, rank, name);
}

template <class KeyOf>
RandomStates saved_states(const Checkpoint& checkpoint, const KeyOf& key_of) {
  RandomStates states;
  for (const char* name : {"cpu", "device", "own", "shared", "seed"}) {
    const auto found = checkpoint.tensors.find(key_of(name));
    if (found != checkpoint.tensors.end()) states[name] = found->second;
  }
  return states;
}

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

Value own_values(TrainerState& run, const PlaceStart& place, Value metrics) {
  // A wish to stop that has had its effect does not count: who wants to go on from there changes what stopped the run.
  const LoopPosition& position = run.resume.position;
  Value::List rank_rows;
  for (const RowCounts& count : place.rows) rank_rows.push_back(count.rank_rows);
  const StepLoss loss =
      run.accumulation.window.open || !run.module().automatic_optimization() ? run.measures.losses.total() : StepLoss();
  return Value::Map{
      {"metrics", std::move(metrics)},
      {"window_weight", run.accumulation.window.weight},
      {"window_loss", Value::List{loss.sum, loss.weight}},
      {"bad_loss", run.nan.waits_to_skip()},
      {"stop", run.stop.asked() && !position.has_stopped() ? Value(run.stop.reason()) : Value()},
      {"skip_epoch", place.skip_epoch_wish && !position.is_between_epochs()},
      {"validate", place.validate_wish},
      {"rank_rows", std::move(rank_rows)},
      {"evaluation_steps", Value::List(place.evaluation_steps.begin(), place.evaluation_steps.end())},
  };
}

/// Under automatic optimization they matter while a window is open; what a user's own does with them nobody else knows.
bool gradients_matter(const TrainerState& run) {
  if (run.accumulation.window.open) return true;
  return run.progress.fitting && !run.module().automatic_optimization() && run.is_global_zero();
}

void add_gradients(const Checkpoint& checkpoint, const Module& module, int rank, std::map<std::string, at::Tensor>& gradients) {
  const std::string prefix = format("{}{}.", kGradients, rank);
  const auto parameters = module.named_parameters();
  for (auto entry = checkpoint.tensors.lower_bound(prefix); entry != checkpoint.tensors.end(); ++entry) {
    if (!entry->first.starts_with(prefix)) return;
    std::string name = entry->first.substr(prefix.size());
    if (is_of_sparse_values(name)) continue;
    at::Tensor gradient = entry->second;
    if (const auto sparse = name_of_sparse_tensor(name)) {
      name = *sparse;
      const at::Tensor* const parameter = parameters.find(name);
      if (parameter != nullptr) gradient = saved_sparse_tensor(checkpoint, prefix + name, parameter->sizes());
    }
    const auto [own, is_new] = gradients.try_emplace(name, gradient);
    if (is_new) continue;
    if (own->second.sizes() != gradient.sizes()) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of '" + own->first + "' that differ in shape.");
    }
    own->second = own->second.is_sparse() ? gradient + own->second : own->second + gradient;
  }
}

void add_values(const Value& values, const Checkpoint& checkpoint, int rank, RankResume& resume) {
  const bool first = resume.metrics.empty();
  resume.metrics.push_back(saved_metrics(values.at("metrics"), checkpoint, rank));
  resume.window_weight += values.at("window_weight").as_int();
  const Value::List& loss = values.at("window_loss").as_list();
  resume.window_loss.sum += loss.at(0).as_double();
  resume.window_loss.weight += loss.at(1).as_double();
  resume.bad_loss |= values.at("bad_loss").as_bool();
  if (const Value& stop = values.at("stop"); !stop.is_null()) {
    resume.stop_wish = true;
    resume.stop_reason = stop.as_string();
  }
  resume.skip_epoch_wish |= values.at("skip_epoch").as_bool();
  resume.validate_wish |= values.at("validate").as_bool();
  if (!first) return;
  for (const Value& steps : values.at("evaluation_steps").as_list()) resume.evaluation_steps.push_back(steps.as_int());
}

RandomStates saved_random(const Strategy& strategy, const Checkpoint& checkpoint) {
  return saved_states(checkpoint, [&](const char* name) { return random_key(strategy, strategy.rank(), name); });
}

}  // namespace

RankState own_rank_state(TrainerState& run) {
  const PlaceStart place = run.place_to_save();
  const int rank = run.strategy().rank();
  RankState state;
  for (const auto& [name, bytes] : place.random.states(rank)) state.tensors[random_key(run.strategy(), rank, name)] = bytes;
  if (place.before_reading) {
    for (const auto& [name, bytes] : place.before_reading->random.states(rank)) state.tensors[reading_key(rank, name)] = bytes;
  }
  if (gradients_matter(run)) {
    for (const auto& [name, gradient] : gradients_of(run.module())) {
      save_tensor(state, format("{}{}.{}", kGradients, rank, name), gradient);
    }
  }
  MetricSnapshot metrics = place.metrics ? *place.metrics : run.metrics->save();
  if (place.maps) metrics.maps = *place.maps;
  state.manifest = own_values(run, place, save_metrics(metrics, rank, state.tensors));
  return state;
}

std::vector<RankState> gather_rank_states(TrainerState& run) {
  if (run.world_size() == 1) return {own_rank_state(run)};
  // Gradients that wait for more batches are as large as the model.
  std::uint64_t longest = RankExchange::kLongestText;
  for (const at::Tensor& parameter : run.module().parameters()) longest += 2 * parameter.nbytes();
  // Rows of metric objects are as long as the data.
  longest += std::uint64_t{1} << 36;
  const ExchangeSite site("gathering the ranks' states for a checkpoint",
                          "all have agreed to write one, or to end for a signal");
  const RankState own = own_rank_state(run);
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : own.tensors) tensors.insert(name, tensor);
  const std::string message = pickled({to_json(own.manifest), tensors});
  std::vector<RankState> states;
  for (const std::string& bytes : run.rank_exchange().gather_text_to_rank_zero(message, site, longest)) {
    const auto parts = unpickled(bytes);
    RankState& state = states.emplace_back();
    state.manifest = parse_json(parts[0].toStringRef());
    for (const auto& entry : parts[1].toGenericDict()) state.tensors[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return states;
}

void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint) {
  checkpoint.tensors[format("{}seed", kRandom)] = seed_state();
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    // Of what ranks have together, rank 0's stays.
    checkpoint.tensors.insert(states[rank].tensors.begin(), states[rank].tensors.end());
    checkpoint.manifest[kRanks][std::to_string(rank)] = states[rank].manifest;
  }
}

RankResume load_rank_state(const TrainerState& run, const Checkpoint& checkpoint, bool gradients_are_local) {
  RankResume resume;
  const int rank = run.strategy().rank();
  resume.random = saved_random(run.strategy(), checkpoint);
  resume.before_reading = saved_states(checkpoint, [&](const char* name) { return reading_key(rank, name); });
  if (!is_of_levin(checkpoint)) {
    rank_zero_info("Random numbers go on from the seed: the checkpoint has none of levin's.");
  } else if (!resume.random.contains("cpu")) {
    Console::instance().warn(format(
        "The checkpoint has no random state for rank {}, as its run was on fewer ranks; random numbers go on from the seed.",
        rank));
  } else if (!resume.random.contains("device") && device_rng_state().defined()) {
    Console::instance().warn("The checkpoint has no random state of " + run.strategy().accelerator().name() +
                             ", since it was written on another kind of device; random numbers there go on from the seed.");
  }
  // Gradients that were reduced already are the same on all ranks, and saved once.
  if (!gradients_are_local) add_gradients(checkpoint, run.module(), 0, resume.gradients);
  const Value* by_rank = checkpoint.manifest.find(kRanks);
  if (by_rank == nullptr) return resume;
  for (int other = rank;; other += run.world_size()) {
    const Value* values = by_rank->find(std::to_string(other));
    if (values == nullptr) break;
    add_values(*values, checkpoint, other, resume);
    if (gradients_are_local) add_gradients(checkpoint, run.module(), other, resume.gradients);
  }
  if (const Value* first = by_rank->find("0"); resume.metrics.empty() && first != nullptr) {
    // A rank that the run which saved did not have shows what all ranks had alike.
    resume.metrics.push_back({.maps = saved_maps(first->at("metrics"))});
  }
  return resume;
}

RowCounts logger_rows_of(const Checkpoint& checkpoint, int rank, std::size_t logger) {
  const Value* by_rank = checkpoint.manifest.find(kRanks);
  const Value* values = by_rank == nullptr ? nullptr : by_rank->find(std::to_string(rank));
  const auto count = [logger](const Value* rows) {
    return rows == nullptr || logger >= rows->size() ? std::int64_t{-1} : rows->as_list()[logger].as_int();
  };
  return {.rows = count(checkpoint.manifest.find("logger_rows")),
          .rank_rows = count(values == nullptr ? nullptr : values->find("rank_rows"))};
}

void restore_random_state(const Strategy& strategy, const Checkpoint& checkpoint) {
  set_random_states(saved_random(strategy, checkpoint), strategy.rank());
}

void copy_rank_states(const Checkpoint& source, Checkpoint& target) {
  for (const auto& [name, tensor] : source.tensors) {
    if (name.starts_with(kRandom) || name.starts_with(kGradients) || name.starts_with(kMetrics)) target.tensors[name] = tensor;
  }
  if (const Value* ranks = source.manifest.find(kRanks)) target.manifest[kRanks] = *ranks;
}

void keep_rank_states(TrainerState& run) {
  if (run.resume.replaying) return;
  try {
    run.resume.rank_states_at_end = gather_rank_states(run);
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      run.strategy().keep_optimizer(*run.parts.optimizers[index], index);
    }
  } catch (const std::exception&) {
    // Another rank has failed meanwhile, which others report; a checkpoint then has rank 0's state.
  }
}

}  // namespace levin
