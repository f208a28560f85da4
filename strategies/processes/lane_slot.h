#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "levin/strategies/processes/shared_count.h"

namespace levin {

/// Of the name of a call that others read.
inline constexpr std::size_t kCallTextBytes = 192;

/// What lies in shared memory of one rank's side of a lane, beside its two buffers. Zero at first.
struct LaneSlot {
  struct Header {
    std::uint64_t total_bytes;
    std::uint32_t operation;  ///< a GroupOperation
    std::int32_t root;
    std::array<char, kCallTextBytes> what;
  };
  SharedCount all_published;             ///< at the first place: chunks of all ranks so far
  std::atomic<std::uint32_t> published;  ///< chunks so far
  std::array<Header, 2> headers;         ///< by parity of the chunk's number
};

}  // namespace levin
