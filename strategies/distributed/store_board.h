#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "levin/strategies/processes/run_board.h"

namespace levin {

/// The board of ranks on several hosts: keys in the run's store. What a rank posts is kept in its own memory, and goes to the
/// store whenever the rank's watch looks for failures, about twice a second: a table may be that old.
class StoreBoard final : public RunBoard {
 public:
  StoreBoard(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void post_whereabouts(const Whereabouts& where) noexcept override;
  Whereabouts own_whereabouts() const override;
  void post_waiting(const char* what) noexcept override;
  void post_busy(bool) noexcept override {}
  void begin_reduction() noexcept override;
  void end_reduction() noexcept override;
  std::optional<int> rank_in_later_reduction() const override;
  std::optional<int> ended_rank() const override { return std::nullopt; }
  std::string table() const override;
  bool claim_stall_report(double seconds) noexcept override;
  double seconds_in_reduction() const override;
  void report_failure(const FailureRecord& failure) noexcept override;
  std::optional<FailureRecord> failure() const override;
  void wait_for_failure(std::chrono::milliseconds limit) const override;

 private:
  using Clock = std::chrono::steady_clock;
  void exchange() const;
  std::string own_line() const;
  std::string own_post() const;
  /// What another rank has posted last.
  struct Posted {
    std::int64_t reduction = 0;  ///< the gradient reduction it is in, counted from 1; 0 outside
    std::string line;            ///< for the table
  };
  Posted posted_by(int rank) const;

  // A store serves one call at a time, and a rendezvous may wait in it for long: the board has a connection of its own.
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  mutable std::mutex mutex_;
  Whereabouts where_;
  Clock::time_point where_since_ = Clock::now();
  std::string waiting_in_;
  Clock::time_point waiting_since_{};
  bool in_reduction_ = false;
  std::int64_t reductions_ = 0;
  Clock::time_point stall_reported_{};
  mutable std::optional<FailureRecord> failure_;
};

}  // namespace levin
