#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "levin/core/formats/pickle.h"

namespace levin {

/// One file of a zip archive.
struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  ///< of its first byte in the archive
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;  ///< 0: the writer has computed none
  bool is_stored = true;    ///< false: compressed or encrypted
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

/// What Python's torch.save() writes, and LibTorch's torch::save(): a zip archive with a pickle, and the bytes of each storage
/// that it names.
class TorchArchive {
 public:
  /// `bytes`, the whole file, must outlive this. Throws IoError, without the file's name, for anything else: an archive of
  /// another kind, or with big-endian numbers.
  explicit TorchArchive(std::string_view bytes);

  /// TorchScript's archives also have the sources of classes; so have LibTorch's.
  bool has_sources() const { return entry("constants.pkl") != nullptr; }
  /// Throws IoError, which says that it is a program of TorchScript's.
  [[noreturn]] static void refuse_program();
  const PickleValue& root() const { return pickle_->root(); }
  std::size_t pickle_bytes() const { return pickle_->bytes(); }
  const ZipArchive& zip() const { return zip_; }
  /// The file that has a tensor's storage. Throws IoError, which names it, unless it has all of the tensor's elements.
  const ZipEntry& storage(const PickleTensor& tensor, std::uint64_t element_size) const;
  /// Throws IoError when they are damaged.
  std::string_view checked_bytes(const ZipEntry& entry) const;

 private:
  /// A file of the archive by its name in the one folder that all are in; nullptr without.
  const ZipEntry* entry(const std::string& name) const { return zip_.find(folder_ + name); }

  ZipArchive zip_;
  std::string folder_;
  std::unique_ptr<Pickle> pickle_;
};

}  // namespace levin
