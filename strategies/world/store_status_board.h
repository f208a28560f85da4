#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "levin/strategies/host/status_board.h"
#include "levin/strategies/store/call_thread.h"
#include "levin/strategies/store/store_message.h"

namespace levin {

/// The board of ranks on several hosts: keys in the run's store. A rank's posts stay in its own memory, and go to the store
/// when the rank's watch looks for failures, about twice a second: a table may be that old. No call here depends on the store's
/// answer, because the process that serves it may be the one that is stopped or gone.
class StoreStatusBoard final : public StatusBoard {
 public:
  /// `rank_zero_serves`: the store ends with rank 0's process, not with a launcher's. `launched`: the view of this host's
  /// launcher on its ranks, if it is levin's, else null; the failure of a run is then reported once on each host, and the
  /// launcher's record of a rank goes to all.
  StoreStatusBoard(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool rank_zero_serves,
                   std::shared_ptr<RunSegment> launched);

  int size() const override { return size_; }
  std::optional<int> rank_in_later_reduction() const override;
  bool spans_hosts() const override { return true; }
  /// Both take about a second: a rank that is gone or stopped shows by posting nothing new.
  std::optional<int> ended_rank() const override { return silent_rank(); }
  std::optional<int> stalled_rank() const override;
  std::string table() const override;
  void report_failure(const FailureRecord& failure) noexcept override;
  std::optional<FailureRecord> failure() const override;
  void wait_for_failure(std::chrono::milliseconds limit) const override;

 private:
  using Clock = std::chrono::steady_clock;

  /// The result of `call(store)`; unset when it failed, or the store does not answer in time.
  template <class Call>
  auto ask(Call call) const -> std::optional<std::invoke_result_t<Call, c10d::Store&>>;
  /// By rank; unset when the store does not answer.
  std::optional<std::vector<RankPost>> posts() const;
  std::optional<int> silent_rank() const;
  RankPost own_post() const;
  void write_down(FailureRecord record) const;
  void publish(const FailureRecord& record) const;
  /// Sends new posts of this rank, and reads new ones of others.
  void exchange() const;
  /// Posts where this rank is, and reads a failure that another rank has recorded.
  void post_and_look() const;
  void keep(const FailureRecord& failure) const;

  // A store serves one call at a time, and a rendezvous may wait in it for long: the board has its own connection.
  c10::intrusive_ptr<c10d::Store> store_;
  int size_;
  bool rank_zero_serves_;
  mutable CallThread thread_;  ///< makes every call to store_
  mutable std::atomic<bool> store_is_gone_{false};
  mutable std::mutex mutex_;
  mutable std::int64_t number_of_posts_ = 0;
  std::int64_t begin_ = monotonic_nanoseconds();
  mutable Clock::time_point last_exchange_{};             ///< the watch's thread alone uses it
  mutable Whereabouts rank_zero_was_ = kBeforeFirstHook;  ///< as last read
  mutable std::optional<FailureRecord> failure_;
};

}  // namespace levin
