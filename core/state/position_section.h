#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "levin/core/state/section.h"

namespace levin {

/// How far the saved run had come in an epoch's data, in terms that hold for any number of ranks.
struct DataPosition {
  std::optional<std::int64_t> samples;  ///< of the global order; unset when its loader could not tell
  std::int64_t world_size = 1;
  std::int64_t batch_size = 0;  ///< of a rank; 0 if unknown
  std::string description;      ///< of the data and their order, as Progress::training_data; empty if unknown
};

/// Where a resumed run begins.
struct ResumePoint {
  bool resumes = false;  ///< false in a new run
  std::string file;      ///< the checkpoint's
  Place place = Place::kTrainStart;
  std::int64_t batches_done = 0;
  Iteration iteration;
  bool completed = true;
  DataPosition data;

  /// The epoch had begun.
  bool is_in_epoch() const { return place > Place::kEpochStart; }
};

/// The position of training (LoopPosition), and counters.
///
///     epoch, global_step                         as Lightning counts them
///     loops                                      the position; other sections add to it
///     data_seed, found_batch_size                settings of the loaders of a resumed run
class PositionSection final : public Section {
 public:
  PositionSection() : Section("position", {"epoch", "global_step", "loops", "data_seed", "found_batch_size"}) {}

  bool is_with_weights() const override { return true; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  /// Sets the counters of the run.
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void forget() override { loaded_ = {}; }

  const ResumePoint& loaded() const { return loaded_; }

 private:
  ResumePoint loaded_;
};

}  // namespace levin
