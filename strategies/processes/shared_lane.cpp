#include "levin/strategies/processes/shared_lane.h"

#include <cstring>
#include <string>
#include <utility>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/peer_limits.h"

namespace levin {

SharedLane::SharedLane(PeerWaits& waits, std::vector<LanePart> parts) : waits_(waits), parts_(std::move(parts)) {}

void SharedLane::publish(const char* what, std::uint64_t total_bytes) {
  LaneSlot& slot = *part(rank()).slot;
  LaneSlot::Header& header = slot.headers[published_ % 2];
  header.total_bytes = total_bytes;
  const std::size_t length = strnlen(what, header.what.size() - 1);
  std::memcpy(header.what.data(), what, length);
  header.what[length] = '\0';
  ++published_;
  part(0).slot->all_published.raise(published_ * static_cast<std::uint32_t>(size()));
  // After that: a rank that ends between both is missed in the next wait at the latest.
  slot.published.store(published_, std::memory_order_release);
}

int SharedLane::late_rank() const {
  for (int peer = 0; peer < size(); ++peer) {
    const std::uint32_t seen = part(peer).slot->published.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - published_) < 0) return peer;
  }
  return -1;
}

void SharedLane::wait_for_all(const char* what) {
  waits_.wait_for(part(0).slot->all_published, published_ * static_cast<std::uint32_t>(size()), what,
                  [this] { return late_rank(); });
}

void SharedLane::check_same_call() {
  const LaneSlot::Header& own = header(rank());
  const std::string_view own_what = text_in(own.what);
  bool same = true;
  for (int peer = 0; peer < size(); ++peer) {
    const LaneSlot::Header& other = header(peer);
    same &= other.total_bytes == own.total_bytes && text_in(other.what) == own_what;
  }
  if (same) return;
  std::vector<GroupCall> calls;
  for (int peer = 0; peer < size(); ++peer) calls.push_back({text_in(header(peer).what), header(peer).total_bytes});
  waits_.fail(describe_different_calls(calls));
}

}  // namespace levin
