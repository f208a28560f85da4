#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace levin {

/// One file of a zip archive.
struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  ///< of its first byte in the archive
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;        ///< 0: the writer has computed none
  bool is_stored = true;          ///< false: compressed or encrypted
  bool is_deflated = false;       ///< compressed by zlib's method
  std::uint64_t packed_size = 0;  ///< its bytes in the archive, `size` where it is stored
};

/// The table of contents of a zip archive, zip64 too.
class ZipArchive {
 public:
  /// `bytes`, the whole archive, must outlive this. Trusts nothing: throws an IoError that names the byte for a malformed or
  /// truncated archive, or a file outside of it.
  explicit ZipArchive(std::string_view bytes);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// nullptr without such a file.
  const ZipEntry* find(std::string_view name) const;
  /// Throws IoError for a file that is compressed: torch stores all.
  std::string_view bytes(const ZipEntry& entry) const;
  /// Its bytes in the archive, as they are.
  std::string_view packed_bytes(const ZipEntry& entry) const { return bytes_.substr(entry.offset, entry.packed_size); }
  /// Its checksum is that of its bytes, or there is none.
  bool is_whole(const ZipEntry& entry) const;

 private:
  std::string_view take(std::uint64_t offset, std::uint64_t size, const char* what) const;
  template <class Number>
  Number number(std::uint64_t offset, const char* what) const;
  void read_entry(std::uint64_t& place);
  void read_large_sizes(std::string_view extra, std::uint64_t& packed_size, std::uint64_t& header, ZipEntry& entry) const;

  std::string_view bytes_;
  std::uint64_t listed_bytes_ = 0;  ///< of all entries together
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, std::size_t> numbers_;  ///< of entries, by name
};

}  // namespace levin
