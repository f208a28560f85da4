#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/dataset.h"

namespace levin {

namespace detail {
class ArrayFile;
}  // namespace detail

struct LEVIN_API ArrayDatasetOptions {
  /// The arrays to read, by their names in batches: {{"features", "/x"}, {"label", "/y"}}. Empty: all, under their own names.
  std::map<std::string, std::string> arrays = {};
  double scale = 1.0;  ///< "features" are multiplied by it
};

/// Samples that are rows of arrays in files: HDF5, .npz, .npy, safetensors, or folders of .npy files. Several files are one
/// behind the other. Only the rows of a batch are read, so files may be larger than the memory; arrays of np.savez_compressed()
/// alone are decompressed as a whole.
///
/// Batches have the arrays by name: "features" as float32, "label" as int64, or float32 where it is a float, and others as they
/// are stored, but for float64, which becomes float32.
///
///     levin::ArrayDataset({"run1.h5", "run2.h5"}, {.arrays = {{"features", "/x"}, {"label", "/y"}}})
class LEVIN_API ArrayDataset final : public Dataset {
 public:
  /// Throws IoError on a damaged file, ConfigError without such arrays, where they differ in their numbers of rows, and where
  /// files differ in shapes or types.
  explicit ArrayDataset(const std::vector<std::filesystem::path>& files, ArrayDatasetOptions options = {});
  ~ArrayDataset() override;
  std::int64_t size() const override { return begins_.back(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  /// Of names, shapes, types, and the first and the last row.
  std::optional<std::uint64_t> fingerprint() const override;
  /// The shape of a row of an array, by its name in batches. Throws MisuseError without one.
  const std::vector<std::int64_t>& shape(const std::string& name) const;
  bool has(const std::string& name) const;
  /// All rows of an array, by its name in batches.
  at::Tensor read_all(const std::string& name) const;

 private:
  /// An array, as all files have it.
  struct Array {
    std::string name = {};  ///< in batches
    std::string name_in_files = {};
    std::vector<std::int64_t> shape = {};   ///< of a row
    std::vector<std::size_t> numbers = {};  ///< in each file
  };

  void find_arrays(const detail::ArrayFile& file, const std::string& name);
  void add_file(std::shared_ptr<const detail::ArrayFile> file, const std::string& name);
  const Array* find(const std::string& name) const;
  at::Tensor read(const Array& array, std::span<const std::int64_t> indices) const;

  ArrayDatasetOptions options_;
  std::string first_file_;
  std::vector<std::shared_ptr<const detail::ArrayFile>> files_;
  std::vector<std::int64_t> begins_ = {0};  ///< the first row of each file, and of one behind the last
  std::vector<Array> arrays_;
};

}  // namespace levin
