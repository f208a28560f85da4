#pragma once

#include <memory>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/processes/peer_waits.h"
#include "levin/strategies/processes/shared_lane.h"

namespace levin {

/// The control group of ranks on one host: a few microseconds an exchange. Errors, which every later call throws again, are
/// those of PeerWaits, and DesyncError on every rank when ranks came with different calls or sizes.
class SharedMemoryGroup final : public ControlGroup {
 public:
  /// `timeout_seconds`: how long a wait may take.
  SharedMemoryGroup(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                    double timeout_seconds);

  int rank() const override { return waits_.rank(); }
  int size() const override { return waits_.size(); }
  /// Also throws MisuseError, on this rank alone, when `all` has the wrong size.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;

 private:
  PeerWaits waits_;
  SharedLane lane_;
};

}  // namespace levin
