#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/fwd.h"
#include "levin/core/resume/loop_position.h"
#include "levin/core/resume/restart_notes.h"

namespace levin {

/// What each rank has of its own, beside the weights that all ranks share. A checkpoint holds every rank's.
struct RankState {
  RandomStates random;          ///< its generators'
  RandomStates before_reading;  ///< BeforeReading::random; empty when no batch lies ready
  std::string values;           ///< JSON: what it has logged, what it shows, its wishes
  std::string gradients;        ///< bytes of gradients that wait for more batches, by parameter
};

/// What a run must know to be saved, and one that resumes to come to where it goes on.
struct ResumeState {
  LoopPosition position;
  bool replaying = false;  ///< a run that resumes has not come to where it goes on; its hooks set things up and write nothing
  std::shared_ptr<const Checkpoint> resumed_from;  ///< until it has
  std::vector<RankState> rank_states_at_end;       ///< by rank, where all ranks end alike; see keep_rank_states
  std::map<std::string, std::filesystem::path> checkpoint_aliases;
  std::filesystem::path newest_file;  ///< the whole checkpoint that was written last
  std::filesystem::path begun_file;   ///< on other ranks than 0: what rank 0 has begun to write since
  RestartNotes notes;                 ///< of fits, for attempts after this one
  std::string queued_job;             ///< set: the checkpoint that is written is for this job's way through its queue

  void arrive() {
    replaying = false;
    resumed_from.reset();
  }
};

}  // namespace levin
