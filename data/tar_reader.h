#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/files/descriptor.h"
#include "levin/data/input_file.h"

namespace levin {

/// A file in a tar file.
struct TarEntry {
  std::string name;
  std::int64_t offset = 0;  ///< of its bytes, in the decompressed tar file
  std::int64_t size = 0;
};

/// A tar file from which bytes are read at any place. Threading: any.
class SeekableTar {
 public:
  /// Throws IoError where it cannot be read or is not a file.
  explicit SeekableTar(const std::filesystem::path& path);
  std::int64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  /// Throws IoError where the file has fewer bytes.
  std::string read(std::int64_t offset, std::int64_t count) const;

 private:
  std::string name_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

/// The files of a tar file (ustar, pax, GNU) one after another: one that is not compressed without reading their bytes, a
/// compressed one (gzip, zstd) through all of it. Folders, links and devices are passed over. Throws IoError, with the place,
/// for what is no tar file, or ends too early.
class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path);

  std::optional<TarEntry> next();
  /// The bytes of the entry that next() gave last. Called: at most once for each.
  std::string read();
  /// The tar file, from which entries can be read later on; null for a compressed one.
  const std::shared_ptr<const SeekableTar>& seekable() const { return seekable_; }

 private:
  /// The next bytes of the tar file; with 0 of them it has ended.
  std::string take(std::int64_t count);
  void pass(std::int64_t count);
  [[noreturn]] void fail(std::string_view reason) const;
  /// The header's block; nullopt at the end.
  std::optional<std::string> header();
  std::int64_t number(std::string_view field) const;
  void read_pax(std::string_view records);

  std::string name_;
  std::shared_ptr<const SeekableTar> seekable_;
  std::unique_ptr<InputFile> compressed_;
  std::unique_ptr<std::istream> stream_;  ///< of the compressed file
  std::int64_t position_ = 0;
  std::int64_t next_header_ = 0;
  std::optional<TarEntry> entry_;
  std::optional<std::string> long_name_;  ///< for the next entry
  std::optional<std::int64_t> long_size_;
  bool is_described_ = false;  ///< a header has told of the next entry
};

/// The sample that a file of a shard belongs to, and its name there: "a/17" and "seg.png" of "a/17.seg.png". No name: to none.
std::pair<std::string_view, std::string_view> key_and_name(std::string_view path);

/// The header of a file in a tar file (ustar; a longer name in a pax header before it), after which come its bytes and zeros up
/// to a multiple of 512.
std::string tar_header(const std::string& name, std::int64_t size);
inline constexpr std::int64_t kTarBlock = 512;
/// Zeros that follow so many bytes.
inline std::int64_t tar_padding(std::int64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

}  // namespace levin
