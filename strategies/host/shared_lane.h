#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/lane_slot.h"
#include "levin/strategies/host/peer_waits.h"

namespace levin {

/// Where a rank's side of a lane lies. Both buffers are as long as those of the other ranks.
struct LanePart {
  LaneSlot* slot = nullptr;
  std::array<std::byte*, 2> buffers{};
};

/// Chunks of bytes that the ranks of a host lay before one another: each writes its own, all read all.
///
/// A rank has two buffers, used in turn. Chunk n of a rank may be overwritten with its chunk n + 2: a rank publishes chunk n +
/// 1 only after it has read everyone's chunk n, so whoever has seen all chunks n + 1 knows that all have read its chunk n.
/// Threading: used by one thread at a time.
class SharedLane {
 public:
  /// `parts`: by place.
  SharedLane(PeerWaits& waits, std::vector<LanePart> parts);

  int place() const { return waits_.place(); }
  int size() const { return waits_.size(); }

  /// This rank's buffer of the chunk that is published next: to be written before.
  std::byte* own_buffer() const { return part(place()).buffers[published_ % 2]; }
  /// Makes what own_buffer() holds this rank's next chunk. `call`: what it belongs to.
  void publish(const GroupCall& call);
  /// Waits until every rank has published as many chunks as this one. Throws as PeerWaits::wait_for() does.
  void wait_for_all(const char* what);
  /// Throws DesyncError, on every rank, unless all ranks have published the last chunk for the same call, in which each
  /// contributes no more than `longest` bytes.
  void check_same_call(std::uint64_t longest = std::numeric_limits<std::uint64_t>::max());
  /// The call for which the rank at a place has published the last chunk.
  GroupCall call(int place) const;
  /// That rank's chunk of the number that this rank published last, until this rank publishes the next but one.
  const std::byte* chunk(int place) const { return part(place).buffers[(published_ - 1) % 2]; }

 private:
  /// The place of a rank that has not published as many chunks as this one; -1 when there is none.
  int late_place() const;
  const LanePart& part(int place) const { return parts_[static_cast<std::size_t>(place)]; }

  PeerWaits& waits_;
  std::vector<LanePart> parts_;
  std::uint32_t published_ = 0;  ///< chunks of this rank so far
};

}  // namespace levin
