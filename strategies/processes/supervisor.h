#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "levin/strategies/processes/rank_process.h"

namespace levin {

/// Watches started ranks until all have ended, and says how the run went.
class Supervisor {
 public:
  explicit Supervisor(StartedRanks ranks);

  bool is_running() const;
  /// Sends a signal that the launcher received to the ranks. SIGTSTP stops them and the launcher until it is continued.
  void pass_on(int signal);
  /// Notices ranks that have ended or failed, and ends the others when their time is over.
  void look();
  static std::chrono::milliseconds time_to_look_again();
  /// Called: when no rank is left. After a failure it ends the processes that ranks have started, prints one line for each rank
  /// but the failed one and those that have said themselves why they ended, and gives the status of the run.
  int finish();

 private:
  struct Rank {
    pid_t process = 0;
    std::optional<int> wait_status;  ///< set once it has ended
    bool killed = false;             ///< by us, when its time was over
  };
  void note_end(int rank, int wait_status);
  void note_failure();
  /// The rank has printed its own line.
  bool has_said_why(int rank) const;
  void send(int signal) const;
  std::string end_of(int rank) const;

  std::shared_ptr<RunSegment> segment_;
  std::vector<Rank> ranks_;
  std::optional<int> failed_rank_;
  std::chrono::steady_clock::time_point kill_time_{};
};

}  // namespace levin
