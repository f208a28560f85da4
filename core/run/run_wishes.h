#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

/// Requests to this rank while a run is under way, by stop(), skip_epoch(), Trainer::request() and signals, and what the
/// ranks agreed on. A wish becomes an agreement when votes travel.
///
/// Threading: ask_to_stop(), ask(), skip_epoch(), is_paused() and the questions about wishes from any thread, the rest from the
/// one that runs hooks.
class RunWishes {
 public:
  /// An entry point begins, which may heed signals. What was asked for in the one before is forgotten; a stop that was asked
  /// for since then counts.
  void begin(bool heeds_signals);
  /// It ends.
  void end();

  /// This rank wants training to stop. An empty reason leaves the one given before.
  void ask_to_stop(const std::string& reason = {});
  void take_back_stop();
  bool stop_asked() const { return stop_asked_.load(std::memory_order_relaxed); }
  std::string stop_reason() const {
    const std::lock_guard lock(mutex_);
    return stop_reason_;
  }
  /// This rank wants the epoch under way to end, or does not any more.
  void skip_epoch(bool wish) { skips_epoch_ = wish; }
  bool skips_epoch() const { return skips_epoch_; }
  /// Trainer::request().
  void ask(RunCommand command);
  bool wants_validation() const { return wants_validation_; }
  bool stops_after_epoch() const { return stops_after_epoch_; }
  /// The signal that this process received, and the entry point heeds; 0 for none. Ranks agree on it with their votes.
  int received_signal() const;

  /// The current votes of this rank.
  Votes votes(bool has_next_batch) const;
  /// Takes over the votes of all ranks on stopping, which each of them has. Gives all votes merged.
  Votes adopt(const std::vector<Votes>& by_rank);
  /// Ranks: all, with what they agreed on, which each of them does next: it is no longer a wish.
  void adopt_commands(const Votes& agreed);
  /// A resumed run had agreed to stop before.
  void agree_to_stop() { stop_agreed_ = true; }
  /// Ranks: all.
  void set_paused(bool paused) { is_paused_ = wants_pause_ = paused; }

  bool stop_agreed() const { return stop_agreed_; }
  bool is_paused() const { return is_paused_; }
  /// The signal for which the ranks agreed to end; 0 for none.
  int signal() const { return signal_; }
  /// Throws Interrupted, saying where ("during fit"), when they agreed to end for a signal.
  void throw_if_signalled(const std::string& where) const;
  /// Why training stops, once that is agreed.
  std::string why_stopping(int world_size) const;

 private:
  mutable std::mutex mutex_;  ///< of requests of other threads
  std::atomic<bool> stop_asked_ = false;
  bool asked_before_the_end_ = false;  ///< of the entry point before
  bool is_running_ = false;
  std::string stop_reason_;  ///< as this rank gave it
  std::atomic<bool> stop_agreed_ = false;
  int first_rank_ = 0;  ///< the lowest rank that asked to stop
  std::atomic<bool> skips_epoch_ = false;

  std::atomic<bool> wants_pause_ = false;
  std::atomic<bool> is_paused_ = false;
  mutable bool voted_to_change_pause_ = false;
  std::atomic<bool> wants_validation_ = false;
  std::atomic<bool> wants_checkpoint_ = false;
  std::atomic<bool> stops_after_epoch_ = false;

  bool heeds_signals_ = true;
  int signal_ = 0;
};

}  // namespace levin
