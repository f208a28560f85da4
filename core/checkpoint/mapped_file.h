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
  /// Throws IoError with the reason.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }
  std::string_view bytes() const { return {data_, size_}; }
  /// CRC-32 of all bytes.
  std::uint32_t checksum() const;

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What a file of tensors is, as far as its first bytes tell.
enum class FileContent : std::uint8_t { kTorch, kIndex, kSafetensors };

/// Throws IoError for whatever is no file of tensors that levin reads: empty files and texts, and formats of other programs,
/// which it names with what to do about them.
FileContent file_content(std::string_view bytes);

}  // namespace levin
