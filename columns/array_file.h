#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace levin::detail {

/// An array of numbers in a file. Its rows are its first dimension.
struct ArrayInfo {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  at::ScalarType type = at::kFloat;
};

/// Arrays with names, of which rows are read by their numbers: an HDF5, .npz, .npy or safetensors file, or a folder of .npy
/// files. Threading: any.
class ArrayFile {
 public:
  ArrayFile() = default;
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  const std::vector<ArrayInfo>& arrays() const { return arrays_; }
  /// What else the file has, which is not read: names, and what they hold ("texts").
  const std::vector<std::pair<std::string, std::string>>& others() const { return others_; }
  /// Rows of the array with this number, in this order. Each has to exist. Throws IoError that names the file.
  virtual at::Tensor read(std::size_t array, std::span<const std::int64_t> rows) const = 0;

 protected:
  std::vector<ArrayInfo> arrays_;
  std::vector<std::pair<std::string, std::string>> others_;
};

/// Opens a file by its ending. Throws IoError on a damaged one, ConfigError on one of another kind, and where a library is
/// missing.
std::shared_ptr<const ArrayFile> open_array_file(const std::filesystem::path& path);

}  // namespace levin::detail
