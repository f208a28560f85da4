#include "levin/strategies/host/shared_lane.h"

#include <algorithm>
#include <string>
#include <utility>

#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

SharedLane::SharedLane(PeerWaits& waits, std::vector<LanePart> parts) : waits_(waits), parts_(std::move(parts)) {}

void SharedLane::publish(const GroupCall& call) {
  LaneSlot& slot = *part(place()).slot;
  LaneSlot::Header& header = slot.headers[published_ % 2];
  header.total_bytes = call.bytes;
  header.operation = static_cast<std::uint32_t>(call.operation);
  header.root = call.root;
  const std::size_t length = std::min(call.what.size(), header.what.size() - 1);
  std::copy_n(call.what.begin(), length, header.what.begin());
  header.what[length] = '\0';
  ++published_;
  part(0).slot->all_published.raise(published_ * static_cast<std::uint32_t>(size()));
  // After that: a rank that ends between both is missed in the next wait at the latest.
  slot.published.store(published_, std::memory_order_release);
}

int SharedLane::late_place() const {
  for (int peer = 0; peer < size(); ++peer) {
    const std::uint32_t seen = part(peer).slot->published.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - published_) < 0) return peer;
  }
  return -1;
}

void SharedLane::wait_for_all(const char* what) {
  waits_.wait_for(part(0).slot->all_published, published_ * static_cast<std::uint32_t>(size()), what,
                  [this] { return late_place(); });
}

GroupCall SharedLane::call(int place) const {
  const LaneSlot::Header& header = part(place).slot->headers[(published_ - 1) % 2];
  return {static_cast<GroupOperation>(header.operation), text_in(header.what), header.total_bytes, header.root};
}

void SharedLane::check_same_call(std::uint64_t longest) {
  const GroupCall own = call(place());
  bool is_alike = own.bytes <= longest;
  for (int peer = 0; peer < size() && is_alike; ++peer) is_alike = call(peer) == own;
  if (is_alike) return;
  std::vector<GroupCall> calls;
  for (int peer = 0; peer < size(); ++peer) calls.push_back(call(peer));
  if (const std::string different = describe_different_calls(calls, waits_.first_rank()); !different.empty())
    waits_.fail(different);
  if (const std::string too_long = describe_too_long(calls, longest, waits_.first_rank()); !too_long.empty())
    waits_.fail(too_long);
}

}  // namespace levin
