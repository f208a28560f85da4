#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "levin/strategies/failure/failure_record.h"
#include "levin/strategies/launch/rank_process.h"

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

  /// What ended the run, once that is over; nothing where it did not fail.
  std::optional<FailureRecord> failure() const;
  /// The local ranks that found no device when the run was started again.
  std::vector<int> ranks_without_device() const;
  /// Why another attempt would not help, or is not wanted; "" where it may. `is_first`: this attempt was the run's first;
  /// `spans_hosts`: the run has ranks elsewhere.
  std::string why_not_again(bool is_first, bool spans_hosts) const;

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
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank - segment_->first_rank())]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank - segment_->first_rank())]; }
  /// Where a rank was whose process nobody has written down.
  FailureRecord unrecorded_failure() const;
  bool have_all_failed_alike() const;
  bool any_slot(std::atomic<std::uint32_t> RankSlot::*flag) const;

  std::shared_ptr<RunSegment> segment_;
  std::vector<Rank> ranks_;         ///< by local rank
  std::optional<int> failed_rank_;  ///< which may be another host's
  bool told_to_stop_ = false;
  std::chrono::steady_clock::time_point kill_time_{};
};

}  // namespace levin
