#pragma once

#include <cstddef>

namespace levin {

// What the store of a run may cost. Gloo's addresses of N ranks are values of some 200 N bytes; an error text has up to 16 KiB.

/// Of a message before its sender is known to be of the run: a hello with a token.
inline constexpr std::size_t kLargestHello = 1024;
/// Of all keys and values together.
inline std::size_t largest_store(int world_size) {
  return (std::size_t{4} << 20) + static_cast<std::size_t>(world_size) * (256 << 10);
}
/// Of a request of a rank, and of an answer, which holds at most all values.
inline std::size_t largest_request(int world_size) { return largest_store(world_size); }
inline std::size_t largest_answer(int world_size) { return largest_store(world_size) + (1 << 20); }
/// Connections that have not said yet who they are.
inline constexpr std::size_t kMostUnknown = 64;
/// Connections of one rank: the groups' own, the board's, and those of tries that were given up.
inline constexpr int kMostOfARank = 16;

}  // namespace levin
