#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin {

/// Who wants training, or the epoch under way, to end: this rank's wishes, and what the ranks agreed on. A wish becomes an
/// agreement when votes travel: at a boundary, or with the gradients of a step. Threading: wishes from any
/// thread; the rest is for the one that runs hooks.
class StopRequest {
 public:
  /// An entry point begins, which may heed signals that the process receives. What was asked for in the one before is
  /// forgotten; what was asked for since then is not.
  void begin(bool heeds_signals);
  /// It ends.
  void end();

  /// This rank wants training to stop. An empty reason keeps the one given before.
  void ask(const std::string& reason = {});
  void take_back();
  bool asked() const { return asked_.load(std::memory_order_relaxed); }
  std::string reason() const;

  /// This rank wants the epoch under way to end, or does not any more.
  void skip_epoch(bool wish) { skips_epoch_ = wish; }
  bool skips_epoch() const { return skips_epoch_; }

  /// This rank's votes as they are now; a signal that this process received is among them.
  Votes votes(bool has_next_batch) const;
  /// Takes over the votes of all ranks, which each of them has. Gives them merged.
  Votes adopt(const std::vector<Votes>& by_rank);
  /// A run that resumes had agreed on it before.
  void agree() { agreed_ = true; }

  /// The ranks agreed to stop.
  bool agreed() const { return agreed_; }
  /// The signal for which they agreed to end; 0 for none.
  int signal() const { return signal_; }
  /// Throws Interrupted, saying where ("during fit"), when they agreed to end for a signal.
  void throw_if_signalled(const std::string& where) const;
  /// Why training stops, in words, once that is agreed.
  std::string explain(int world_size) const;

 private:
  mutable std::mutex mutex_;  ///< of what other threads ask for
  std::atomic<bool> asked_ = false;
  bool asked_before_the_end_ = false;  ///< of the entry point before
  bool is_running_ = false;
  std::string reason_;  ///< as this rank gave it
  std::atomic<bool> agreed_ = false;
  bool heeds_signals_ = true;
  std::atomic<bool> skips_epoch_ = false;
  int signal_ = 0;
  int first_rank_ = 0;  ///< the lowest rank that asked
};

}  // namespace levin
