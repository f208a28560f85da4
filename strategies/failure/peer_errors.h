#pragma once

#include <string>

#include "levin/core/base/error.h"

namespace levin {

// Errors of a rank that only tell how it noticed another one's. They are thrown where that is known, so that nobody has to
// guess it from a text; users see them as DesyncError.

/// A wait has ended, since a failure of the run is written down; what() is that failure.
class RecordedFailure final : public DesyncError {
 public:
  using DesyncError::DesyncError;
};

/// A connection to other ranks was lost: the echo of another rank's end, or of a link between hosts.
class ConnectionLost final : public DesyncError {
 public:
  /// `closed_by_peer`: the other host has said so itself, so that it is there.
  ConnectionLost(const std::string& message, bool closed_by_peer) : DesyncError(message), closed_by_peer_(closed_by_peer) {}
  bool closed_by_peer() const { return closed_by_peer_; }

 private:
  bool closed_by_peer_;
};

}  // namespace levin
