#pragma once

#include <optional>

#include "levin/core/random/rng_state.h"
#include "levin/core/state/section.h"

namespace levin {

class Strategy;

/// The generators of this process and of its device.
///
///     rng.R.cpu, rng.R.<accelerator>, rng.R.own    tensors: their states on rank R, as bytes
///     rng.shared, rng.seed                         the streams that ranks share, and the seed of all
class RandomSection final : public Section {
 public:
  RandomSection() : Section("random numbers", {"rng."}) {}

  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void save_own(TrainerState& run, RankState& state) override;
  /// Reports when the saved run had no such rank or device: its random numbers then start from the seed.
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_.clear(); }

  /// For a run that was saved before it trained: hooks of its set-up draw the same numbers again.
  static void restore_at_once(const Strategy& strategy, const Checkpoint& checkpoint);

 private:
  std::optional<RandomSnapshot> start_;
  RandomStates loaded_;
  bool is_before_training_ = false;  ///< the run was saved before training: hooks have drawn since
};

/// The prefetched batch. It is not saved but read again, with the random numbers and counters of the first time.
///
///     rng.R.read, rng.R.read.<accelerator>, …      tensors: states of generators on rank R
///     loops: reading                               counters that the loader may use; null: no batch is prefetched
class ReadingSection final : public Section {
 public:
  ReadingSection() : Section("prefetched batch", {"loops", "rng."}) {}

  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void save_own(TrainerState& run, RankState& state) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void forget() override;

  /// The generators with which the loader of a resumed run reads that batch.
  const RandomStates& random() const { return random_; }
  const std::optional<ReadingCounters>& counters() const { return counters_; }

 private:
  std::optional<BeforeReading> start_;
  RandomStates random_;
  std::optional<ReadingCounters> counters_;
};

}  // namespace levin
