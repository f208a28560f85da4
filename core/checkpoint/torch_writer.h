#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "levin/core/checkpoint/pickle_writer.h"

namespace levin {

/// Writes a file as Python's torch.save() does: a pickle of values and tensors, and each storage once.
class TorchWriter {
 public:
  PickleTree tree;

  /// Tensors of one storage share it in the file.
  PickleValue* add(const at::Tensor& tensor);
  /// Whole and in place of an older file, or not at all. Throws IoError.
  void write(const PickleValue& root, const std::filesystem::path& file) const;

 private:
  std::vector<at::Tensor> storages_;  ///< a tensor of each: the number is the key
  std::map<const c10::StorageImpl*, std::size_t> numbers_;
};

}  // namespace levin
