#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "levin/core/export.h"

namespace levin {

/// How many times its own size what is compressed may be unless a user sets another number. Tables of measurements compress
/// some 5 times, those with 99 zeros in 100 numbers 100 times; the format's limit, which zeros alone come near, is 1032.
inline constexpr double kMaxExpansion = 100.0;

/// A file of data, read once from its beginning, and decompressed on the way when it is a gzip file.
class LEVIN_API InputFile {
 public:
  /// Opens the file. Throws IoError, naming it and the system's reason, when it cannot be read or is no file: a folder, a pipe,
  /// a device. `max_expansion`: a gzip file is refused at the place where what was read so far is more than 64 MiB, and more
  /// than so many times the compressed bytes that it came from.
  explicit InputFile(const std::filesystem::path& path, double max_expansion = kMaxExpansion);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Reads the next bytes, up to `size`, and gives how many they are; 0 at the end. Throws IoError when the compressed data is
  /// damaged, ends too early or expands too much.
  std::size_t read(char* buffer, std::size_t size);
  /// Bytes of the file as it lies on the disk.
  std::uint64_t size_on_disk() const { return size_on_disk_; }

 private:
  struct Stream;
  [[noreturn]] void fail(const std::string& reason) const;
  void check_expansion() const;

  std::filesystem::path path_;
  std::uint64_t size_on_disk_ = 0;
  std::uint64_t read_ = 0;  // bytes given out
  double max_expansion_;
  std::unique_ptr<Stream> stream_;
};

/// The whole content of a file, as InputFile gives it. Memory follows what the file really holds.
LEVIN_API std::string read_input_file(const std::filesystem::path& path, double max_expansion = kMaxExpansion);

}  // namespace levin
