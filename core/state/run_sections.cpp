#include "levin/core/state/run_sections.h"

#include <ATen/core/Dict.h>

#include <string>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/config/value_json.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/pickled_values.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

/// Copies the values of these keys, and the tensors whose names begin with them.
void copy(const Checkpoint& source, const std::vector<std::string_view>& keys, Checkpoint& target) {
  for (const std::string_view key : keys) {
    if (const Value* value = source.manifest.find(key)) target.manifest[key] = *value;
    if (!key.ends_with('.')) continue;
    for (const auto& [name, tensor] : tensors_with_prefix(source, key)) target.tensors[name] = tensor;
  }
}

}  // namespace

std::array<Section*, RunSections::kCount> RunSections::list() {
  return std::apply([](auto&... section) { return std::array<Section*, kCount>{&section...}; }, all_);
}

void RunSections::begin(TrainerState& run, Place place) {
  std::apply([&](auto&... section) { (section.begin(run, place), ...); }, all_);
}

void RunSections::save(TrainerState& run, Checkpoint& checkpoint, bool weights_only) {
  save_format(checkpoint);
  for (Section* const section : list()) {
    if (weights_only && !section->is_with_weights()) continue;
    const bool as_it_was_given = run.resume.replaying && !weights_only && !section->keys().empty();
    if (as_it_was_given) {
      copy(*run.resume.resumed_from, section->keys(), checkpoint);
    } else {
      section->save(run, checkpoint);
    }
  }
  if (!run.resume.replaying || weights_only) return;
  copy(*run.resume.resumed_from, {kRanks}, checkpoint);
}

RankState RunSections::save_own(TrainerState& run) {
  RankState state;
  for (Section* const section : list()) section->save_own(run, state);
  return state;
}

void RunSections::load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) {
  for (Section* const section : list()) section->load_early(run, checkpoint, step);
}

void RunSections::load(TrainerState& run, const Checkpoint& checkpoint) {
  for (Section* const section : list()) section->load(run, checkpoint);
  for (int rank = run.strategy().rank();; rank += run.world_size()) {
    const Value* const values = values_of_rank(checkpoint, rank);
    if (values == nullptr) return;
    for (Section* const section : list()) section->load_own(run, checkpoint, rank, *values);
  }
}

void RunSections::restore(TrainerState& run, Moment moment) {
  for (Section* const section : list()) section->restore(run, moment);
}

void RunSections::forget() {
  for (Section* const section : list()) section->forget();
}

std::vector<RankState> gather_rank_states(TrainerState& run) {
  if (run.world_size() == 1) return {run.sections->save_own(run)};
  // Gradients that wait for more batches are as large as the model.
  std::uint64_t longest = RankExchange::kLongestText;
  for (const at::Tensor& parameter : run.module().parameters()) longest += 2 * parameter.nbytes();
  // Rows of metric objects are as long as the data.
  longest += std::uint64_t{1} << 36;
  const ExchangeSite site("gathering the ranks' states for a checkpoint",
                          "all have agreed to write one, or to end for a signal");
  const RankState own = run.sections->save_own(run);
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
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    // Of tensors that ranks share, insert() leaves rank 0's.
    checkpoint.tensors.insert(states[rank].tensors.begin(), states[rank].tensors.end());
    checkpoint.manifest[kRanks][std::to_string(rank)] = states[rank].manifest;
  }
}

void keep_rank_states(TrainerState& run) {
  if (run.resume.replaying) return;
  try {
    run.resume.rank_states_at_end = gather_rank_states(run);
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      run.strategy().keep_optimizer(*run.parts.optimizers[index], index);
    }
  } catch (const std::exception&) {
    // Another rank has failed, which others report; a checkpoint then has only rank 0's state.
  }
}

void begin_place(TrainerState& run, Place place) {
  LoopPosition& position = run.resume.position;
  position.place = place;
  position.step_is_taken = false;
  position.epochs_done = run.progress.epoch;
  if (place == Place::kEpochStart) position.batches_done = 0;
  run.sections->begin(run, place);
}

}  // namespace levin
