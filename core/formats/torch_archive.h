#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "levin/core/formats/pickle.h"
#include "levin/core/formats/zip_archive.h"

namespace levin {

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
