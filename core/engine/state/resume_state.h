#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/loop_position.h"
#include "levin/core/protocol/metric_store.h"

namespace levin {

class ParameterResume;
class RestartNotes;

/// How far the run that saved a checkpoint had come in an epoch's data, in terms that hold for any number of ranks.
struct DataPosition {
  std::optional<std::int64_t> samples;  ///< of the global order; unset when its loader could not tell
  std::int64_t world_size = 1;
  std::int64_t batch_size = 0;  ///< of a rank; 0 when not known
};

/// What one rank takes over from a checkpoint.
struct RankResume {
  std::vector<MetricSnapshot> metrics;  ///< of this rank, or of several in place of which it goes on
  RandomStates random;                  ///< without this rank's own where the run that saved had no such rank
  RandomStates before_reading;          ///< BeforeReading::random
  std::map<std::string, at::Tensor> gradients;
  std::int64_t window_weight = 0;
  bool bad_loss = false;  ///< since the optimizer stepped
  bool stop_wish = false;
  std::string stop_reason;
  bool skip_epoch_wish = false;
  std::vector<std::int64_t> evaluation_steps;
};

/// Where a run goes on.
struct ResumePoint {
  bool resumes = false;  ///< false in a run that begins
  std::string file;      ///< the checkpoint's
  Place place = Place::kTrainStart;
  std::int64_t batches_done = 0;
  Iteration iteration;
  bool completed = true;
  int hooks_done = 0;
  bool stop_agreed = false;
  DataPosition data;
  std::optional<ReadingCounters> reading;  ///< BeforeReading::counters
  bool window_open = false;
  std::int64_t window_scale = 1;  ///< what gradients in the window were divided by: full batch size times batches a step
  std::optional<std::int64_t> accumulate_grad_batches;
  RankResume rank;
  std::shared_ptr<ParameterResume> parameters;  ///< null in a run that begins

  /// The epoch had begun.
  bool is_in_epoch() const { return place > Place::kEpochStart; }
};

/// What each rank has of its own, beside the weights that all ranks share, and a checkpoint holds of every rank: tensors under
/// the names that they have in its file, and values: what it has logged, what it shows, its wishes.
using RankState = Checkpoint;

/// What a run must know to be saved, and one that resumes to come to where it goes on.
struct ResumeState {
  LoopPosition position;
  bool replaying = false;  ///< a run that resumes has not come to where it goes on; its hooks set things up and write nothing
  std::shared_ptr<const Checkpoint> resumed_from;  ///< until it has
  std::vector<RankState> rank_states_at_end;       ///< by rank, where all ranks end alike; see keep_rank_states
  std::map<std::string, std::filesystem::path> checkpoint_aliases;
  std::filesystem::path newest_file;    ///< the whole checkpoint that was written last
  std::filesystem::path begun_file;     ///< on other ranks than 0: what rank 0 has begun to write since
  std::int64_t saved_step = 0;          ///< of the run's newest checkpoint that is written or begun, or that it goes on from
  std::shared_ptr<RestartNotes> notes;  ///< of this fit and those before, for attempts after this one; null before the first
  std::string queued_job;               ///< set: the checkpoint that is written is for this job's way through its queue

  void arrive() {
    replaying = false;
    resumed_from.reset();
  }
};

}  // namespace levin
