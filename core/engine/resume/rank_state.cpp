#include "levin/core/engine/resume/rank_state.h"

#include <ATen/core/Dict.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <string_view>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/metric_rows.h"
#include "levin/core/engine/resume/checkpoint_state.h"
#include "levin/core/engine/resume/parameter_state.h"
#include "levin/core/options/value_json.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/random/rng_state.h"

namespace levin {

namespace {

constexpr const char* kRanks = "ranks";
constexpr const char* kRandom = "rng.";
constexpr const char* kGradients = "gradients.";
constexpr const char* kMetrics = "metrics.";

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
  return Value::Map{{"hook", hook_name(metric.hook)},
                    {"name", metric.name},
                    {"dataloader_idx", metric.dataloader_idx},
                    {"options", static_cast<std::int64_t>(metric.options.pack())},
                    {"site", metric.site},
                    {"epoch", to_value(metric.epoch)},
                    {"step", to_value(metric.step)},
                    {"step_is_new", saved.step_is_new},
                    {"step_is_unshared", saved.step_is_unshared},
                    {"of_last_batch", saved.of_last_batch},
                    {"object", saved.object}};
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
  if (const Value* object = value.find("object")) saved.object = object->as_string();
  if (!saved.object.empty()) saved.metric.options.object = detail::object_id(saved.object);
  return saved;
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

Value to_value(const MetricSnapshot& snapshot) {
  Value::List training;
  for (const SavedMetric& saved : snapshot.training) training.push_back(to_value(saved));
  return Value::Map{{"training", std::move(training)},
                    {"epoch_batches", snapshot.epoch_batches},
                    {"step_batches", snapshot.step_batches},
                    {"callback", to_value(snapshot.maps.callback)},
                    {"logged", to_value(snapshot.maps.logged)},
                    {"progress_bar", to_value(snapshot.maps.progress_bar)},
                    {"monitored", to_value(snapshot.maps.monitored)}};
}

/// Metrics of a hook or with options that this build does not know are left out.
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

/// "metrics.1.step.3": the batch's state of the third metric of rank 1; "metrics.1.epoch.accuracy": an object's of the epoch.
std::string metric_key(int rank, const char* level, const std::string& name) {
  return format("{}{}.{}.{}", kMetrics, rank, level, name);
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

void save_metric_states(const MetricSnapshot& snapshot, int rank, std::map<std::string, at::Tensor>& tensors) {
  for (std::size_t index = 0; index < snapshot.training.size(); ++index) {
    save_metric_state(metric_key(rank, "step", std::to_string(index)), snapshot.training[index].step_state, tensors);
  }
  for (const SavedObject& object : snapshot.objects) {
    save_metric_state(metric_key(rank, "epoch", object.name), object.state, tensors);
  }
}

void load_metric_states(const Checkpoint& checkpoint, int rank, MetricSnapshot& snapshot) {
  for (std::size_t index = 0; index < snapshot.training.size(); ++index) {
    SavedMetric& saved = snapshot.training[index];
    if (saved.object.empty()) continue;
    saved.step_state = metric_state(metric_key(rank, "step", std::to_string(index)), checkpoint);
    const auto is_same = [&](const SavedObject& other) { return other.name == saved.object; };
    if (std::any_of(snapshot.objects.begin(), snapshot.objects.end(), is_same)) continue;
    snapshot.objects.push_back({saved.object, metric_state(metric_key(rank, "epoch", saved.object), checkpoint)});
  }
}

MetricSnapshot own_metrics(TrainerState& run) {
  const LoopPosition& position = run.resume.position;
  const bool at_start = position.begins_anew();
  MetricSnapshot metrics = run.metrics->save(at_start ? MetricMoment::kMark : MetricMoment::kNow);
  if (at_start && position.start.maps) metrics.maps = *position.start.maps;
  return metrics;
}

Value own_values(TrainerState& run, const MetricSnapshot& metrics) {
  const LoopPosition& position = run.resume.position;
  const bool at_start = position.begins_anew();
  // Between epochs a wish to stop has had its effect; who wants to go on from there changes what stopped the run.
  const bool in_epoch = !position.is_between_epochs();
  Value::List rank_rows;
  for (const RowCounts& count : at_start ? position.start.rows : rows_written(run.setup.loggers)) {
    rank_rows.push_back(count.rank_rows);
  }
  const StepLoss loss =
      run.accumulation.window.open || !run.module().automatic_optimization() ? run.measures.losses.total() : StepLoss();
  const auto& steps = at_start ? position.start.evaluation_steps : run.progress.evaluation_steps;
  return Value::Map{
      {"metrics", to_value(metrics)},
      {"window_weight", run.accumulation.window.weight},
      {"window_loss", Value::List{loss.sum, loss.weight}},
      {"bad_loss", run.nan.waits_to_skip()},
      {"stop", run.stop.asked() && in_epoch ? Value(run.stop.reason()) : Value()},
      {"skip_epoch", in_epoch && (at_start ? position.start.skip_epoch_wish : run.stop.skips_epoch())},
      {"rank_rows", std::move(rank_rows)},
      {"evaluation_steps", Value::List(steps.begin(), steps.end())},
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
  resume.metrics.push_back(metric_snapshot(values.at("metrics")));
  load_metric_states(checkpoint, rank, resume.metrics.back());
  resume.window_weight += values.at("window_weight").as_int();
  if (const Value* loss = values.find("window_loss")) {
    resume.window_loss.sum += loss->as_list().at(0).as_double();
    resume.window_loss.weight += loss->as_list().at(1).as_double();
  }
  if (const Value* bad_loss = values.find("bad_loss")) resume.bad_loss |= bad_loss->as_bool();
  if (const Value& stop = values.at("stop"); !stop.is_null()) {
    resume.stop_wish = true;
    resume.stop_reason = stop.as_string();
  }
  resume.skip_epoch_wish |= values.at("skip_epoch").as_bool();
  if (!first) return;
  for (const Value& steps : values.at("evaluation_steps").as_list()) resume.evaluation_steps.push_back(steps.as_int());
}

RandomStates saved_random(const Strategy& strategy, const Checkpoint& checkpoint) {
  return saved_states(checkpoint, [&](const char* name) { return random_key(strategy, strategy.rank(), name); });
}

}  // namespace

RankState own_rank_state(TrainerState& run) {
  const LoopPosition& position = run.resume.position;
  const bool at_start = position.begins_anew();
  const auto& before_reading = at_start ? position.start.before_reading : position.before_reading;
  const int rank = run.strategy().rank();
  RankState state;
  for (const auto& [name, bytes] : (at_start ? position.start.random : RandomSnapshot::take()).states(rank)) {
    state.tensors[random_key(run.strategy(), rank, name)] = bytes;
  }
  if (before_reading) {
    for (const auto& [name, bytes] : before_reading->random.states(rank)) state.tensors[reading_key(rank, name)] = bytes;
  }
  if (gradients_matter(run)) {
    for (const auto& [name, gradient] : gradients_of(run.module())) {
      save_tensor(state, format("{}{}.{}", kGradients, rank, name), gradient);
    }
  }
  const MetricSnapshot metrics = own_metrics(run);
  save_metric_states(metrics, rank, state.tensors);
  state.manifest = own_values(run, metrics);
  return state;
}

std::vector<RankState> gather_rank_states(TrainerState& run) {
  if (run.world_size() == 1) return {own_rank_state(run)};
  // Gradients that wait for more batches are as large as the model.
  std::uint64_t longest = RankExchange::kLongestText;
  for (const at::Tensor& parameter : run.module().parameters()) longest += 2 * parameter.nbytes();
  // Rows of metric objects are as long as the data.
  longest += std::uint64_t{1} << 36;
  const Meeting meeting("gathering the ranks' states for a checkpoint", "all have agreed to write one, or to end for a signal");
  const RankState own = own_rank_state(run);
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : own.tensors) tensors.insert(name, tensor);
  const std::string message = pickled({to_json(own.manifest), tensors});
  std::vector<RankState> states;
  for (const std::string& bytes : run.rank_exchange().gather_text_to_rank_zero(message, meeting, longest)) {
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
    MetricSnapshot& shown = resume.metrics.emplace_back(metric_snapshot(first->at("metrics")));
    shown.training.clear();
    shown.epoch_batches = shown.step_batches = 0;
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

std::string pickled(std::vector<c10::IValue> values) {
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(values)));
  return {bytes.begin(), bytes.end()};
}

std::vector<c10::IValue> unpickled(const std::string& bytes) {
  return torch::jit::pickle_load({bytes.begin(), bytes.end()}).toTupleRef().elements().vec();
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
