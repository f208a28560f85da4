#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_lane.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

/// A control group whose calls are all one exchange, in which ranks announce their calls, and each takes what it needs of the
/// others' bytes.
class ExchangeGroup : public ControlGroup {
 public:
  /// Also throws MisuseError, only on this rank, when `all` has the wrong size.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) final;
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) final;
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) final;

 protected:
  /// A call of this rank.
  struct Call {
    GroupOperation operation;
    std::span<const std::byte> mine;
    const char* what;
    std::uint64_t longest = std::numeric_limits<std::uint64_t>::max();
    std::int32_t root = 0;

    GroupCall announced() const { return {operation, what, mine.size(), root}; }
  };
  /// Gets a part of a peer's `size` bytes, from `offset` on, and copies what it needs.
  using Take = std::function<void(int peer, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes)>;
  /// Announces this rank's call, waits for the others', and passes their bytes to `take`, unless no rank needs them.
  virtual void perform(const Call& call, const Take& take) = 0;
};

/// The control group of ranks on one host: less than a microsecond per exchange. Errors, which every later call throws again,
/// are those of PeerWaits, and DesyncError on every rank when ranks came with different calls or sizes.
class SharedMemoryGroup final : public ExchangeGroup {
 public:
  /// `timeout_seconds`: the limit of a wait.
  SharedMemoryGroup(const std::shared_ptr<RunSegment>& segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                    double timeout_seconds);

  int rank() const override { return waits_.index(); }
  int size() const override { return waits_.size(); }

 private:
  /// Publishes this rank's bytes and waits for all ranks', chunk by chunk.
  void perform(const Call& call, const Take& take) override;

  PeerWaits waits_;
  SharedLane lane_;
};

/// Votes of ranks on one host: one word per rank and parity of the sequence. Two are enough: a rank that publishes for n + 2
/// has ended reduction n + 1, which every rank began after it read the votes of n.
class SharedMemoryVoteChannel final : public VoteChannel {
 public:
  SharedMemoryVoteChannel(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board)
      : segment_(std::move(segment)), board_(std::move(board)) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  /// Throws DesyncError when a rank has not published for this sequence: its reductions differ from this rank's.
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  std::shared_ptr<RunSegment> segment_;
  std::shared_ptr<SharedMemoryStatusBoard> board_;
};

}  // namespace levin
