#pragma once

#include <cstddef>
#include <cstdint>

#include "levin/core/base/fwd.h"

namespace levin {

/// Where another process of the same user finds memory that a process has. Plain bytes.
struct SharedFilePlace {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t inode = 0;  ///< tells it from what another process of that number has
};

/// Memory that processes of one host share, zero at first. It has no name: it lives as long as a process has it, whatever ends
/// them, and does not count against the size of /dev/shm. Its descriptor is never one of 0 to 2.
class SharedFile {
 public:
  /// New memory, all of which is there: writing to it later cannot fail. Throws IoError.
  static SharedFile create(std::size_t bytes);
  /// Memory that has been inherited, or received. Takes over the descriptor. Throws IoError.
  static SharedFile attach(int descriptor);
  /// Memory that another process has. Throws IoError, also when that process is not seen from here (in another container).
  static SharedFile open_at(const SharedFilePlace& place);

  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();

  int descriptor() const { return descriptor_; }
  /// Where others find it, as long as this process has it.
  SharedFilePlace place() const;
  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  SharedFile(int descriptor, std::size_t bytes);

  int descriptor_;
  std::size_t bytes_;
  void* memory_;
};

}  // namespace levin
