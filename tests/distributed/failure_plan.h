#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace levin::test {

/// Where, when, how and on which rank a run of failure_program fails.
struct FailurePlan {
  std::string place;   ///< "module.training_step", "callback.setup", "loader.next", …
  std::string manner;  ///< see fail_now()
  int rank = 0;        ///< on this one; -1: on all
  std::filesystem::path folder;

  /// This process's rank, and the rank's training epoch, as known so far.
  int own_rank = 0;
  std::atomic<std::int64_t> epoch{0};
  /// What the error must say of the place: "training_step (train, epoch 1, step 4)". Unset: the run has not begun.
  std::function<std::string()> describe;

  /// Called at each place. Fails when it is the place of the plan and its time has come: places that come in each epoch fail in
  /// the second one, after metrics and checkpoints of the first were written. First it writes `folder/failed_at`: the time on
  /// CLOCK_MONOTONIC in nanoseconds, and where this is.
  void reach(const std::string& reached, bool comes_each_epoch);

  bool is_own_turn() const { return own_rank >= 0 && (rank < 0 || rank == own_rank); }

 private:
  void write_time_stamp() const;
  std::atomic<bool> done_{false};
};

/// Fails: throw, throw_own (an error that names the rank), throw_gloo (one that sounds like a lost
/// connection), throw_object, memory, abort, segfault, exit, sigkill, sigterm,
/// sigstop or loop. Comes back from sigterm, and from any other name, only.
void fail_in(const std::string& manner, int rank = 0);

}  // namespace levin::test
