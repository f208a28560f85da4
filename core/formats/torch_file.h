#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/formats/pickle.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/formats/torch_archive.h"

namespace levin {

/// Whether these are the first bytes of what torch.save() writes, Lightning's checkpoints among it.
bool is_torch_file(std::string_view bytes);
/// Its tensors; `key` as for TensorFile::open(). Throws IoError, without the file's name.
TensorFile open_torch_file(const std::filesystem::path& path, const std::string& key);
/// Its checksums. Throws IoError when it is not a whole archive.
std::vector<ChecksumReport> torch_file_checks(std::string_view bytes);

/// The tensors of a file that Python's torch.save() or LibTorch's torch::save() has written. Reading it runs no code of it: see
/// Pickle.
class TorchFile {
 public:
  using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

  /// Throws IoError, without the file's name.
  explicit TorchFile(const std::filesystem::path& file);

  const PickleValue& root() const { return archive_.root(); }
  /// See TorchArchive::has_sources().
  bool has_sources() const { return archive_.has_sources(); }
  /// On the CPU, mapped copy-on-write: tensors of one storage share it, but for those that torch has saved as conjugated or
  /// negated views. Throws IoError, such as when the storage is damaged.
  at::Tensor tensor(const PickleTensor& described);
  /// The tensors of a dict, in its order; what else is in it is left out. Throws IoError for a tensor of a kind that is not
  /// read.
  Tensors tensors(const PickleValue& dict);
  /// What makes plain values of the file's: one allowance for all of them.
  PlainValues& plain() { return plain_; }

 private:
  std::shared_ptr<MappedFile> mapping_;
  TorchArchive archive_;
  PlainValues plain_;
  std::uint64_t bytes_left_;  ///< that all tensors together may have
  std::map<std::string, c10::Storage> storages_;
};

/// Writes a file as Python's torch.save() does: a pickle of values and tensors, and each storage once.
class TorchWriter {
 public:
  PickleTree tree;

  /// Tensors of one storage share it in the file.
  PickleValue* add(const at::Tensor& tensor);
  /// Replaces an older file atomically. Throws IoError.
  void write(const PickleValue& root, const std::filesystem::path& file) const;

 private:
  std::vector<at::Tensor> storages_;  ///< a tensor of each: the number is the key
  std::map<const c10::StorageImpl*, std::size_t> numbers_;
};

}  // namespace levin
