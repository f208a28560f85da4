#include "levin/columns/array_file.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "levin/columns/hdf5/hdf5_files.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/optional_library.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/data/array_files.h"
#include "levin/data/npz_file.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

at::Tensor tensor_of_rows(std::span<const std::int64_t> rows) {
  return at::tensor(at::ArrayRef<std::int64_t>(rows.data(), rows.size()), at::kLong);
}

/// Arrays that are tensors already, in memory or as a part of a file.
class TensorArrays final : public ArrayFile {
 public:
  void add(std::string name, at::Tensor values) {
    arrays_.push_back({.name = std::move(name), .shape = values.sizes().vec(), .type = values.scalar_type()});
    values_.push_back(std::move(values));
  }
  at::Tensor read(std::size_t array, std::span<const std::int64_t> rows) const override {
    return values_.at(array).index_select(0, tensor_of_rows(rows));
  }

 private:
  std::vector<at::Tensor> values_;
};

std::shared_ptr<const ArrayFile> open_npz(const fs::path& path) {
  const NpzFile file(path);
  auto arrays = std::make_shared<TensorArrays>();
  for (const std::string& name : file.names()) arrays->add(name, file.read(name));
  return arrays;
}

std::shared_ptr<const ArrayFile> open_npy(const fs::path& path) {
  auto arrays = std::make_shared<TensorArrays>();
  arrays->add("features", map_npy(path));
  return arrays;
}

std::shared_ptr<const ArrayFile> open_folder(const fs::path& path) {
  std::vector<fs::path> files = newest_files(path, ".npy");
  std::sort(files.begin(), files.end());
  if (files.empty()) throw ConfigError(format("{}: it is a folder without .npy files", path));
  auto arrays = std::make_shared<TensorArrays>();
  for (const fs::path& file : files) arrays->add(file.stem().string(), map_npy(file));
  return arrays;
}

std::shared_ptr<const ArrayFile> open_safetensors(const fs::path& path) {
  const TensorFile file = TensorFile::open(path);
  auto arrays = std::make_shared<TensorArrays>();
  for (const std::string& name : file.names) arrays->add(name, file.content.tensors.at(name));
  return arrays;
}

// HDF5.

const OptionalLibrary kHdf5Library({.file = "liblevin_hdf5.so",
                                    .entry = "levin_hdf5_files",
                                    .title = "HDF5 files",
                                    .contents = "HDF5",
                                    .build_packages = "libhdf5-dev",
                                    .run_packages = "libhdf5-103-1"});

at::ScalarType type_of(const Hdf5Array& array) {
  if (array.kind == 'b') return at::kBool;
  if (array.kind == 'u') return at::kByte;
  if (array.kind == 'f') return array.bytes == 2 ? at::kHalf : array.bytes == 4 ? at::kFloat : at::kDouble;
  return array.bytes == 1 ? at::kChar : array.bytes == 2 ? at::kShort : array.bytes == 4 ? at::kInt : at::kLong;
}

class Hdf5Arrays final : public ArrayFile {
 public:
  explicit Hdf5Arrays(const fs::path& path) : path_(path) {
    std::error_code error;
    if (const auto type = fs::status(path, error).type(); error || type != fs::file_type::regular)
      throw IoError(format("{}: cannot be read: {}", path, error ? error.message() : "it is no file"));
    const auto library = kHdf5Library.entry<decltype(levin_hdf5_files)>()();
    naming_file([&] { file_ = library->open(path.string()); });
    for (std::size_t number = 0; number < file_->arrays().size(); ++number) {
      const Hdf5Array& array = file_->arrays()[number];
      if (array.kind == 0) {
        others_.emplace_back(array.path, array.content);
        continue;
      }
      numbers_.push_back(number);
      arrays_.push_back({.name = array.path, .shape = array.shape, .type = type_of(array)});
    }
  }
  at::Tensor read(std::size_t array, std::span<const std::int64_t> rows) const override {
    std::vector<std::int64_t> shape = arrays_.at(array).shape;
    // Each row once and in the order of the file, whose chunks are then read once.
    std::vector<std::int64_t> sorted(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    shape[0] = std::ssize(sorted);
    at::Tensor values = at::empty(shape, arrays_[array].type);
    naming_file([&] { file_->read(numbers_[array], sorted, static_cast<std::byte*>(values.mutable_data_ptr())); });
    if (std::ranges::equal(sorted, rows)) return values;
    std::vector<std::int64_t> places;
    for (const std::int64_t row : rows) places.push_back(std::ranges::lower_bound(sorted, row) - sorted.begin());
    return values.index_select(0, tensor_of_rows(places));
  }

 private:
  void naming_file(const std::function<void()>& step) const {
    try {
      step();
    } catch (const std::runtime_error& error) {
      throw IoError(format("{}: cannot be read: {}", path_, error.what()));
    }
  }

  fs::path path_;
  std::unique_ptr<Hdf5File> file_;
  std::vector<std::size_t> numbers_;  ///< in the file, of those that hold numbers
};

struct Kind {
  const char* ending;
  std::shared_ptr<const ArrayFile> (*open)(const fs::path& path);
};
std::shared_ptr<const ArrayFile> open_hdf5(const fs::path& path) { return std::make_shared<Hdf5Arrays>(path); }
constexpr std::array kKinds = {Kind{".h5", open_hdf5},  Kind{".hdf5", open_hdf5}, Kind{".hdf", open_hdf5},
                               Kind{".he5", open_hdf5}, Kind{".nc", open_hdf5},   Kind{".mat", open_hdf5},
                               Kind{".npz", open_npz},  Kind{".npy", open_npy},   Kind{".safetensors", open_safetensors}};

}  // namespace

std::shared_ptr<const ArrayFile> open_array_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  const std::string name = lowercase(without_query(path).filename().string());
  const auto found = std::ranges::find_if(kKinds, [&](const Kind& kind) { return name.ends_with(kind.ending); });
  if (found == kKinds.end()) {
    throw ConfigError(format("{}: the name does not say what the file holds; it ends in one of {}", path,
                             join(kKinds, ", ", [](const Kind& kind) { return std::string(kind.ending); })));
  }
  return found->open(path);
}

}  // namespace levin::detail
