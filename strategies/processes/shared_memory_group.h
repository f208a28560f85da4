#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/processes/shared_memory_status_board.h"

namespace levin {

/// The control group of ranks on one host: a few microseconds an exchange.
///
/// Each rank owns two chunk buffers, used in turn. Chunk n of a rank may be overwritten with its chunk n + 2: a rank publishes
/// chunk n + 1 only after it has read everyone's chunk n, so whoever has seen all chunks n + 1 knows that all have read its
/// chunk n.
///
/// A wait ends with DesyncError, on every rank, when ranks came with different calls or sizes, when a rank has failed or ended,
/// when a rank is in a gradient reduction that cannot end because this rank waits here, and after the time limit. The group is
/// unusable after any of these, and every later call throws the same error.
class SharedMemoryGroup final : public ControlGroup {
 public:
  /// `timeout_seconds`: how long a wait may take.
  SharedMemoryGroup(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                    double timeout_seconds);

  int rank() const override { return board_->rank(); }
  int size() const override { return board_->size(); }
  /// Also throws MisuseError, on this rank alone, when `all` has the wrong size.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;
  /// All ranks wait for one another; only rank 0 copies.
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override;
  /// All ranks wait for one another; only `root` publishes more than which call it is in.
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override;

 private:
  struct Wait;
  struct Call;
  /// Publishes this rank's bytes and waits for everyone's, chunk by chunk. `take(peer, size, offset, bytes)` is given what the
  /// peer has published of its `size` bytes from `offset` on; it must have copied what it needs when it returns.
  template <class Take>
  void meet(const Call& call, const Take& take);
  void publish(const Call& call, std::size_t offset);
  void wait_for_all(const char* what);
  void wait_for(int peer, Wait& wait);
  void check_peer(int peer, Wait& wait);
  /// How many bytes each rank contributes to the call in which all are.
  std::vector<std::uint64_t> check_same_call(std::uint64_t longest);
  /// Writes this rank's failure down, and throws it now and at every later call.
  [[noreturn]] void fail(const std::string& text);
  /// The same for a failure that is written down already.
  [[noreturn]] void end_because_of(const FailureRecord& failure);

  std::shared_ptr<RunSegment> segment_;
  std::shared_ptr<SharedMemoryStatusBoard> board_;
  double timeout_seconds_;
  std::uint32_t published_ = 0;  ///< chunks of this rank so far
  int spins_;
  std::exception_ptr broken_;
};

}  // namespace levin
