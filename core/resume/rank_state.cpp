#include "levin/core/resume/rank_state.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <string_view>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/rng_state.h"
#include "levin/core/checkpoint/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"
#include "levin/core/protocol/rank_exchange.h"
#include "levin/core/resume/gradient_state.h"
#include "levin/core/resume/metric_state.h"
#include "levin/core/rows/metric_rows.h"

namespace levin {

namespace {

constexpr const char* kRanks = "ranks";
constexpr const char* kRandom = "rng.";
constexpr const char* kGradients = "gradients.";

std::string text_of(const at::Tensor& bytes) { return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}; }

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

/// "rng.1.cpu", "rng.1.cuda": a generator; "rng.1.read": RandomState::before_reading.
std::string random_key(int rank, const std::string& which) { return format("{}{}.{}", kRandom, rank, which); }

Value own_values(TrainerState& run) {
  const LoopPosition& position = run.resume.position;
  const bool at_start = position.begins_anew();
  MetricSnapshot metrics = run.metrics->save(at_start ? MetricMoment::kMark : MetricMoment::kNow);
  if (at_start && position.start.maps) metrics.maps = *position.start.maps;
  Value values(Value::Map{});
  values["metrics"] = to_value(metrics);
  values["window_weight"] = run.accumulation.window.weight;
  // Between epochs a wish to stop has had its effect; who wants to go on from there changes what stopped the run.
  const bool in_epoch = !position.is_between_epochs();
  values["stop"] = run.stop.asked() && in_epoch ? Value(run.stop.reason()) : Value();
  values["skip_epoch"] = in_epoch && (at_start ? position.start.skip_epoch_wish : run.stop.skips_epoch());
  values["rank_rows"] = Value(Value::List{});
  for (const RowCounts& count : at_start ? position.start.rows : rows_written(run.setup.loggers)) {
    values["rank_rows"].push_back(count.rank_rows);
  }
  values["evaluation_steps"] = Value(Value::List{});
  for (const std::int64_t steps : at_start ? position.start.evaluation_steps : run.progress.evaluation_steps) {
    values["evaluation_steps"].push_back(steps);
  }
  return values;
}

/// Under automatic optimization gradients matter while a window is open. What a user's own optimization does with them nobody
/// else knows.
bool gradients_matter(const TrainerState& run) {
  if (run.accumulation.window.open) return true;
  return run.progress.fitting && !run.module().automatic_optimization() && run.is_global_zero();
}

std::string pack(const RankState& state) {
  std::string packed;
  for (const std::string* part :
       {&state.random, &state.device_random, &state.before_reading, &state.values, &state.gradients}) {
    const std::uint64_t size = part->size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof size).append(*part);
  }
  return packed;
}

[[noreturn]] void throw_cut_off(std::size_t rank) {
  throw DesyncError(
      format("rank {} sent what is no state of a rank for a checkpoint: do all ranks run the same build of levin?", rank));
}

RankState unpack(std::string_view packed, std::size_t rank) {
  RankState state;
  for (std::string* part : {&state.random, &state.device_random, &state.before_reading, &state.values, &state.gradients}) {
    std::uint64_t size = 0;
    if (packed.size() < sizeof size) throw_cut_off(rank);
    std::memcpy(&size, packed.data(), sizeof size);
    packed.remove_prefix(sizeof size);
    if (packed.size() < size) throw_cut_off(rank);
    part->assign(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  return state;
}

const at::Tensor* tensor_of(const Checkpoint& checkpoint, const std::string& key) {
  const auto found = checkpoint.tensors.find(key);
  return found == checkpoint.tensors.end() ? nullptr : &found->second;
}

void add_gradients(const Checkpoint& checkpoint, int rank, std::map<std::string, at::Tensor>& gradients) {
  const std::string prefix = format("{}{}.", kGradients, rank);
  for (auto entry = checkpoint.tensors.lower_bound(prefix); entry != checkpoint.tensors.end(); ++entry) {
    if (!entry->first.starts_with(prefix)) return;
    const auto [own, is_new] = gradients.try_emplace(entry->first.substr(prefix.size()), entry->second);
    if (is_new) continue;
    if (own->second.sizes() != entry->second.sizes()) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of '" + own->first + "' that differ in shape.");
    }
    own->second = own->second + entry->second;
  }
}

void add_values(const Value& values, RankResume& resume) {
  const bool first = resume.metrics.empty();
  resume.metrics.push_back(metric_snapshot(values.at("metrics")));
  resume.window_weight += values.at("window_weight").as_int();
  if (const Value& stop = values.at("stop"); !stop.is_null()) {
    resume.stop_wish = true;
    resume.stop_reason = stop.as_string();
  }
  resume.skip_epoch_wish |= values.at("skip_epoch").as_bool();
  if (!first) return;
  for (const Value& steps : values.at("evaluation_steps").as_list()) resume.evaluation_steps.push_back(steps.as_int());
}

/// A rank that the run which saved did not have shows what all ranks had alike.
void show_like_rank_zero(const Value& values, RankResume& resume) {
  MetricSnapshot snapshot = metric_snapshot(values.at("metrics"));
  snapshot.training.clear();
  snapshot.epoch_batches = snapshot.step_batches = 0;
  resume.metrics.push_back(std::move(snapshot));
}

}  // namespace

RankState own_rank_state(TrainerState& run) {
  const LoopPosition& position = run.resume.position;
  const bool at_start = position.begins_anew();
  const auto& before_reading = at_start ? position.start.random.before_reading : position.before_reading;
  RankState state;
  state.random = text_of(at_start ? position.start.random.now.state() : rng_state());
  const at::Tensor device = at_start ? position.start.random.now.device_state() : device_rng_state();
  if (device.defined()) state.device_random = text_of(device);
  if (before_reading) state.before_reading = text_of(before_reading->state());
  state.values = to_json(own_values(run));
  if (gradients_matter(run)) state.gradients = pack_gradients(gradients_of(run.module()));
  return state;
}

std::vector<RankState> gather_rank_states(TrainerState& run) {
  std::vector<RankState> states;
  // Gradients that wait for more batches are as large as the model.
  std::uint64_t longest = RankExchange::kLongestText;
  for (const at::Tensor& parameter : run.module().parameters()) longest += 2 * parameter.nbytes();
  const Meeting meeting("gathering the ranks' states for a checkpoint", "all have agreed to write one, or to end for a signal");
  for (const std::string& text :
       RankExchange(run.strategy().control_group()).gather_text(pack(own_rank_state(run)), meeting, longest)) {
    states.push_back(unpack(text, states.size()));
  }
  return states;
}

void save_rank_states(const TrainerState& run, const std::vector<RankState>& states, Checkpoint& checkpoint) {
  for (std::size_t index = 0; index < states.size(); ++index) {
    const RankState& state = states[index];
    const int rank = static_cast<int>(index);
    checkpoint.tensors[random_key(rank, "cpu")] = bytes_of(state.random);
    if (!state.device_random.empty()) {
      checkpoint.tensors[random_key(rank, run.strategy().accelerator().name())] = bytes_of(state.device_random);
    }
    if (!state.before_reading.empty()) checkpoint.tensors[random_key(rank, "read")] = bytes_of(state.before_reading);
    for (auto& [name, gradient] : unpack_gradients(run.module(), state.gradients)) {
      checkpoint.tensors[format("{}{}.", kGradients, rank) + name] = gradient;
    }
    checkpoint.manifest[kRanks][std::to_string(rank)] = parse_json(state.values);
  }
}

RankResume load_rank_state(const TrainerState& run, const Checkpoint& checkpoint, bool gradients_are_local) {
  RankResume resume;
  const int rank = run.strategy().rank();
  if (const at::Tensor* random = tensor_of(checkpoint, random_key(rank, "cpu"))) {
    resume.random = *random;
  } else {
    Console::instance().warn(
        format("The checkpoint has no random state for rank {}, since it was written by a run on fewer ranks; random numbers "
               "go on from the seed.",
               rank));
  }
  const std::string accelerator = run.strategy().accelerator().name();
  if (const at::Tensor* device = tensor_of(checkpoint, random_key(rank, accelerator))) {
    if (device_rng_state().defined()) resume.device_random = *device;
  } else if (resume.random && device_rng_state().defined()) {
    Console::instance().warn("The checkpoint has no random state of " + accelerator +
                             ", since it was written on another kind of device; random numbers there go on from the seed.");
  }
  if (const at::Tensor* read = tensor_of(checkpoint, random_key(rank, "read"))) resume.before_reading = *read;
  // Gradients that were reduced already are the same on all ranks, and saved once.
  if (!gradients_are_local) add_gradients(checkpoint, 0, resume.gradients);
  const Value* by_rank = checkpoint.manifest.find(kRanks);
  if (by_rank == nullptr) return resume;
  for (int other = rank;; other += run.world_size()) {
    const Value* values = by_rank->find(std::to_string(other));
    if (values == nullptr) break;
    add_values(*values, resume);
    if (gradients_are_local) add_gradients(checkpoint, other, resume.gradients);
  }
  const Value* of_rank_zero = by_rank->find("0");
  if (resume.metrics.empty() && of_rank_zero != nullptr) show_like_rank_zero(*of_rank_zero, resume);
  return resume;
}

const Value* saved_rank_rows(const Checkpoint& checkpoint, int rank) {
  const Value* by_rank = checkpoint.manifest.find(kRanks);
  const Value* values = by_rank == nullptr ? nullptr : by_rank->find(std::to_string(rank));
  return values == nullptr ? nullptr : values->find("rank_rows");
}

bool restore_random_state(const Strategy& strategy, const Checkpoint& checkpoint) {
  const at::Tensor* random = tensor_of(checkpoint, random_key(strategy.rank(), "cpu"));
  const at::Tensor* device = tensor_of(checkpoint, random_key(strategy.rank(), strategy.accelerator().name()));
  if (random != nullptr) set_rng_state(*random);
  if (device != nullptr) set_device_rng_state(*device);
  return random != nullptr;
}

void copy_rank_states(const Checkpoint& source, Checkpoint& target) {
  for (const auto& [name, tensor] : source.tensors) {
    if (name.starts_with(kRandom) || name.starts_with(kGradients)) target.tensors[name] = tensor;
  }
  if (const Value* ranks = source.manifest.find(kRanks)) target.manifest[kRanks] = *ranks;
}

void keep_rank_states(TrainerState& run) {
  if (run.resume.replaying) return;
  try {
    run.resume.rank_states_at_end = gather_rank_states(run);
  } catch (const std::exception&) {
    // Another rank has failed meanwhile, which others report; a checkpoint then has rank 0's state.
  }
}

}  // namespace levin
