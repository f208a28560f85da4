#include "levin/strategies/processes/shared_memory_group.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

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

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                                     double timeout_seconds)
    : waits_(segment, std::move(board), timeout_seconds), lane_(waits_, control_lane(*segment)) {}

void SharedMemoryGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  waits_.check_usable();
  check_sizes(mine, all, what);
  waits_.board().end_reduction();
  waits_.board().post_waiting(what);
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(kChunkBytes, mine.size() - offset);
    if (length > 0) std::memcpy(lane_.own_buffer(), mine.data() + offset, length);
    lane_.publish(what, mine.size());
    lane_.wait_for_all(what);
    if (offset == 0) lane_.check_same_call();
    for (int peer = 0; length > 0 && peer < size(); ++peer) {
      std::memcpy(all.data() + static_cast<std::size_t>(peer) * mine.size() + offset, lane_.chunk(peer), length);
    }
    offset += length;
  } while (offset < mine.size());
  waits_.board().post_waiting(nullptr);
}

}  // namespace levin
