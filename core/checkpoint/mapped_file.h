#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace levin {

/// A whole file in memory, copy-on-write: bytes are read from disk when they are touched, and writing to them changes this
/// process's copy only.
class MappedFile {
 public:
  /// `place`: a path or an address (local_copy()). Throws IoError with the reason.
  explicit MappedFile(const std::filesystem::path& place);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }
  std::string_view bytes() const { return {data_, size_}; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// CRC-32 of bytes, after others whose CRC-32 is `so_far`.
std::uint32_t checksum_of(std::string_view bytes, std::uint32_t so_far = 0);

/// Throws IoError for files that levin cannot read: empty files, texts, and known formats of other programs, which it names
/// with a cure.
void refuse_other_formats(std::string_view bytes);

}  // namespace levin
