#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/files/descriptor.h"

namespace levin {

/// Memory that processes of one host share, zero at first. It has no name: it lives as long as a process holds it, however
/// these end, and does not count against the size of /dev/shm. Its descriptor is never 0, 1 or 2.
class SharedFile {
 public:
  /// Allocates all of the memory: later writes cannot fail. Throws IoError.
  static SharedFile create(std::size_t bytes);
  /// Opens inherited or received memory. Throws IoError.
  static SharedFile attach(Descriptor descriptor);
  /// Opens the memory of another process. Throws IoError, also when that process is not visible (in another container).
  static SharedFile open_at(const std::string& place);

  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();

  int descriptor() const { return descriptor_.number(); }
  /// Where other processes of the same user find it while this one holds it: process, descriptor and inode, which excludes a
  /// later process with that number.
  std::string place() const;
  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  SharedFile(Descriptor descriptor, std::size_t bytes);

  Descriptor descriptor_;
  std::size_t bytes_;
  void* memory_;
};

/// Two connected sockets of this host, of a type of socketpair(), closed on exec. Not open, with errno, on failure.
std::pair<Descriptor, Descriptor> connected_sockets(int type);

/// The limit of one message.
inline constexpr std::size_t kMostDescriptors = 4;

/// Sends bytes over a socket of this host with open descriptors, of which the receiver gets copies. Returns the result of
/// sendmsg(), which gets `flags`.
ssize_t send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags);

/// Receives such a message into `bytes`, and its descriptors, which are closed on exec. Returns the result of recvmsg(), which
/// gets `flags`. -1 with EMSGSIZE, and none of them, when not all could be received.
ssize_t receive_descriptors(int socket, std::span<std::byte> bytes, std::vector<Descriptor>& descriptors, int flags);

}  // namespace levin
