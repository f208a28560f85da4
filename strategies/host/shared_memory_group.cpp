#include "levin/strategies/host/shared_memory_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace levin {

namespace {

std::vector<LanePart> control_lane(const RunSegment& segment) {
  std::vector<LanePart> parts;
  for (int rank = segment.first_rank(); rank < segment.end_rank(); ++rank) {
    RankSlot& slot = segment.slot(rank);
    parts.push_back({&slot.control, {slot.control_chunks[0].data(), slot.control_chunks[1].data()}});
  }
  return parts;
}

void copy_into(std::string& part, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
  part.resize(size);
  std::memcpy(part.data() + offset, bytes.data(), bytes.size());
}

}  // namespace

// A call must not allocate memory: with std::ref, std::function does not copy these.

void ExchangeGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  check_sizes(mine, all, what);
  const auto take = [&](int peer, std::uint64_t, std::size_t offset, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), all.data() + static_cast<std::size_t>(peer) * mine.size() + offset);
  };
  perform({GroupOperation::kAllGather, mine, what}, std::ref(take));
}

std::vector<std::string> ExchangeGroup::gather(std::string_view mine, std::uint64_t longest, const char* what) {
  std::vector<std::string> parts(rank() == 0 ? static_cast<std::size_t>(size()) : 0);
  const auto take = [&](int peer, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
    if (rank() == 0) copy_into(parts[static_cast<std::size_t>(peer)], size, offset, bytes);
  };
  perform({GroupOperation::kGather, std::as_bytes(std::span(mine)), what, longest}, std::ref(take));
  return parts;
}

std::string ExchangeGroup::broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) {
  check_root(root, what);
  std::string received;
  const auto take = [&](int peer, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
    if (peer == root) copy_into(received, size, offset, bytes);
  };
  perform({GroupOperation::kBroadcast, std::as_bytes(std::span(rank() == root ? mine : "")), what, longest, root},
          std::ref(take));
  return received;
}

SharedMemoryGroup::SharedMemoryGroup(const std::shared_ptr<RunSegment>& segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                                     double timeout_seconds)
    : waits_(segment, std::move(board), timeout_seconds), lane_(waits_, control_lane(*segment)) {}

void SharedMemoryGroup::perform(const Call& call, const Take& take) {
  waits_.check_usable();
  waits_.board().end_reduction();
  waits_.board().post_waiting(call.what);
  std::uint64_t most = 0;
  for (std::size_t offset = 0; offset == 0 || offset < most; offset += kChunkBytes) {
    const auto rest = call.mine.subspan(std::min(offset, call.mine.size()));
    std::copy_n(rest.begin(), std::min(kChunkBytes, rest.size()), lane_.own_buffer());
    lane_.publish(call.announced());
    lane_.wait_for_all(call.what);
    if (offset == 0) lane_.check_same_call(call.longest);
    for (int peer = 0; peer < size(); ++peer) {
      const std::uint64_t bytes = lane_.call(peer).bytes;
      most = std::max(most, bytes);
      if (offset < bytes) take(peer, bytes, offset, std::span(lane_.chunk(peer), std::min(kChunkBytes, bytes - offset)));
    }
  }
  waits_.board().post_waiting(nullptr);
}

void SharedMemoryVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  RankSlot& slot = segment_->slot(board_->rank());
  const std::size_t parity = static_cast<std::size_t>(sequence) % 2;
  slot.votes[parity].store(pack(votes), std::memory_order_relaxed);
  slot.vote_sequence[parity].store(sequence + 1, std::memory_order_release);
}

std::vector<Votes> SharedMemoryVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  const std::size_t parity = static_cast<std::size_t>(sequence) % 2;
  std::vector<PublishedVotes> by_rank;
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    const RankSlot& slot = segment_->slot(rank);
    const std::int64_t published = slot.vote_sequence[parity].load(std::memory_order_acquire) - 1;
    by_rank.push_back({published, slot.votes[parity].load(std::memory_order_relaxed)});
  }
  return unpack_votes(by_rank, sequence, board_->rank());
}

}  // namespace levin
