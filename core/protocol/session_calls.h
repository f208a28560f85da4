#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace levin {

/// What the caller of a rank's Session asks for, where ranks take part in it together.
enum class SessionCall : std::uint8_t { kStep, kBeginEpoch, kEndEpoch, kEnd, kValidate, kTest, kSave, kLoad };

/// "step()".
std::string_view call_name(SessionCall call);

/// What all ranks do next.
enum class SessionWork : std::uint8_t {
  kBeginEpoch,   ///< an epoch begins on all ranks; then ranks ask one another again
  kIterate,      ///< an iteration: ranks that have called end_epoch() or end() take part without a batch
  kEndEpoch,     ///< the epoch ends on all ranks; then ranks ask one another again
  kEndTraining,  ///< the same, and no epoch follows, since a rank has called end()
  kCall          ///< what they have called, which is the same on all
};

/// What follows from the calls of all ranks, so that all do the same. `stops_with_first`: an epoch ends with the first rank
/// that ends it, as it must when only the user's code knows which reductions a step does; otherwise with the last. Throws
/// MisuseError, of all ranks, for calls that do not go together: it names them.
SessionWork work_of(const std::vector<SessionCall>& calls, bool stops_with_first);

}  // namespace levin
