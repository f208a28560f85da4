#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "levin/strategies/processes/shared_count.h"
#include "levin/strategies/processes/shared_memory_status_board.h"

namespace levin {

/// A rank's waits for other ranks of its host. A wait ends with DesyncError, on every rank, when a rank has failed or ended,
/// when a rank is in a gradient reduction that cannot end because this rank waits here, and after the time limit. Every later
/// wait then throws the same error. Threading: used by one thread at a time.
class PeerWaits {
 public:
  /// `timeout_seconds`: how long a wait may take.
  PeerWaits(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board, double timeout_seconds);

  int rank() const { return board_->rank(); }
  int size() const { return board_->size(); }
  SharedMemoryStatusBoard& board() const { return *board_; }

  /// Throws the error that ended an earlier wait, if one did.
  void check_usable() const {
    if (broken_) std::rethrow_exception(broken_);
  }
  /// Waits until the count has come to `number`. `late_rank()`: a rank that has not come yet, or a negative number. `what`: the
  /// call that this rank is in.
  template <class LateRank>
  void wait_for(SharedCount& count, std::uint32_t number, const char* what, const LateRank& late_rank) {
    if (!count.has_reached(number) && !comes_soon(count, number)) sleep_until(count, number, what, late_rank);
  }
  /// Writes this rank's failure down, and throws it now and at every later wait.
  [[noreturn]] void fail(const std::string& text);

 private:
  struct Wait;
  bool comes_soon(const SharedCount& count, std::uint32_t number) const;
  void sleep_until(SharedCount& count, std::uint32_t number, const char* what, const std::function<int()>& late_rank);
  void check(Wait& wait);
  /// The same as fail() for a failure that is written down already.
  [[noreturn]] void end_because_of(const FailureRecord& failure);

  std::shared_ptr<RunSegment> segment_;
  std::shared_ptr<SharedMemoryStatusBoard> board_;
  double timeout_seconds_;
  bool has_own_core_;
  std::exception_ptr broken_;
};

}  // namespace levin
