#include "levin/core/state/run_sections.h"

#include <algorithm>
#include <string>

#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

constexpr const char* kRanks = "ranks";

/// Copies the values of these keys, and the tensors whose names begin with them.
void copy(const Checkpoint& source, const std::vector<std::string_view>& keys, Checkpoint& target) {
  for (const std::string_view key : keys) {
    if (const Value* value = source.manifest.find(key)) target.manifest[key] = *value;
    if (!key.ends_with('.')) continue;
    for (auto entry = source.tensors.lower_bound(std::string(key));
         entry != source.tensors.end() && entry->first.starts_with(key); ++entry) {
      target.tensors[entry->first] = entry->second;
    }
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
  if (const Value* ranks = run.resume.resumed_from->manifest.find(kRanks)) checkpoint.manifest[kRanks] = *ranks;
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
  const Value* const by_rank = checkpoint.manifest.find(kRanks);
  if (by_rank == nullptr) return;
  for (int rank = run.strategy().rank();; rank += run.world_size()) {
    const Value* const values = by_rank->find(std::to_string(rank));
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

}  // namespace levin
