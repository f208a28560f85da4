#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

namespace levin {

/// As many as one message carries.
inline constexpr std::size_t kMostDescriptors = 4;

/// Sends bytes over a socket of this host together with open descriptors, of which whoever receives them gets copies. What
/// sendmsg() gives; `flags` are its own.
ssize_t send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags);

/// Receives such a message into `bytes`, and its descriptors, which are closed on exec. What recvmsg() gives; `flags` are its
/// own. -1 with EMSGSIZE, and none of them, when not all could be received.
ssize_t receive_descriptors(int socket, std::span<std::byte> bytes, std::vector<int>& descriptors, int flags);

}  // namespace levin
