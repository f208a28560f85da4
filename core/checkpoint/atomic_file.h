#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace levin {

/// Writes a file such that at any instant its name leads to the old file or to the whole new one: the bytes go to a temporary
/// file in the same folder, which takes the name when it is complete and on disk.
class AtomicFile {
 public:
  /// Makes the folder when it is missing. Throws IoError.
  explicit AtomicFile(std::filesystem::path file);
  /// Removes the temporary file, unless commit() has succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes. Throws IoError, such as on a full disk.
  void write(std::string_view bytes);
  /// Puts the new file in the old one's place, for good: fsync, rename, fsync of the folder. Throws IoError.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing, int error) const;

  std::filesystem::path file_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace levin
