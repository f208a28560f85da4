#include "levin/columns/array_dataset.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "levin/columns/array_file.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

using detail::ArrayFile;
using detail::ArrayInfo;

/// HDF5's names are paths; a user may leave the first slash out.
bool is_called(const std::string& name, const std::string& wanted) { return name == wanted || name == format("/{}", wanted); }

/// "'/x' [100, 3] Float, '/y' [100] Long"
std::string shown_arrays(const ArrayFile& file) {
  constexpr std::size_t kMostShown = 20;
  const auto& arrays = file.arrays();
  const std::span shown(arrays.data(), std::min(arrays.size(), kMostShown));
  const std::string text = join(shown, ", ", [](const ArrayInfo& array) {
    return format("{} {} {}", quoted_text(array.name, 60), c10::str(at::IntArrayRef(array.shape)), c10::toString(array.type));
  });
  if (arrays.empty()) return "no array of numbers";
  return arrays.size() > kMostShown ? format("{} and {} more", text, arrays.size() - kMostShown) : text;
}

[[noreturn]] void throw_no_array(const ArrayFile& file, const std::string& wanted, const std::string& name) {
  for (const auto& [other, content] : file.others()) {
    if (!is_called(other, wanted)) continue;
    throw ConfigError(format("{}: {} holds {}, and arrays of numbers are read; it has {}", name, quoted_text(other, 60),
                             content, shown_arrays(file)));
  }
  throw ConfigError(format("{}: there is no array {} in it; it has {}", name, quoted_text(wanted, 60), shown_arrays(file)));
}

/// "x" of "/x", "run_x" of "/run/x".
std::string name_in_batches(std::string name) {
  if (name.starts_with('/')) name.erase(0, 1);
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

at::Tensor as_in_batches(const at::Tensor& values, const std::string& name, double scale) {
  if (name == "features") {
    const at::Tensor features = values.to(at::kFloat);
    return scale == 1.0 ? features : features * scale;
  }
  if (values.is_floating_point())
    return values.to(name == "label" || values.scalar_type() == at::kDouble ? at::kFloat : values.scalar_type());
  return name == "label" ? values.to(at::kLong) : values;
}

}  // namespace

ArrayDataset::ArrayDataset(const std::vector<std::filesystem::path>& files, ArrayDatasetOptions options)
    : options_(std::move(options)) {
  if (files.empty()) throw ConfigError("ArrayDataset: no file is given");
  for (const std::filesystem::path& path : files) {
    auto file = detail::open_array_file(path);
    if (files_.empty()) find_arrays(*file, path.string());
    add_file(std::move(file), path.string());
  }
}

ArrayDataset::~ArrayDataset() = default;

/// What the options name, in the first file.
void ArrayDataset::find_arrays(const ArrayFile& file, const std::string& name) {
  first_file_ = name;
  if (options_.arrays.empty()) {
    for (const ArrayInfo& array : file.arrays())
      if (!array.shape.empty()) arrays_.push_back({.name = name_in_batches(array.name), .name_in_files = array.name});
    const auto rows_of = [](const ArrayInfo& array) { return array.shape.empty() ? -1 : array.shape[0]; };
    std::set<std::int64_t> rows;
    for (const ArrayInfo& array : file.arrays())
      if (rows_of(array) >= 0) rows.insert(rows_of(array));
    if (rows.size() > 1) {
      throw ConfigError(
          format("{}: its arrays differ in their numbers of rows: name those to read with features, label or arrays; it "
                 "has {}",
                 name, shown_arrays(file)));
    }
    if (arrays_.empty()) throw ConfigError(format("{}: there is nothing to read: it has {}", name, shown_arrays(file)));
  }
  for (const auto& [in_batches, in_file] : options_.arrays) arrays_.push_back({.name = in_batches, .name_in_files = in_file});
}

void ArrayDataset::add_file(std::shared_ptr<const ArrayFile> file, const std::string& name) {
  std::optional<std::int64_t> rows;
  for (Array& array : arrays_) {
    const auto found =
        std::ranges::find_if(file->arrays(), [&](const ArrayInfo& info) { return is_called(info.name, array.name_in_files); });
    if (found == file->arrays().end()) throw_no_array(*file, array.name_in_files, name);
    if (found->shape.empty())
      throw ConfigError(format("{}: {} is a single number, not rows", name, quoted_text(found->name, 60)));
    if (rows && *rows != found->shape[0]) {
      throw ConfigError(format("{}: {} has {} rows, and {} has {}: the arrays of a sample have the same", name,
                               quoted_text(found->name, 60), found->shape[0], quoted_text(arrays_.front().name_in_files, 60),
                               *rows));
    }
    rows = found->shape[0];
    const std::vector<std::int64_t> shape(found->shape.begin() + 1, found->shape.end());
    if (files_.empty()) {
      array.shape = shape;
    } else if (array.shape != shape) {
      throw ConfigError(format("{}: a row of {} has the shape {}, and one of {} has {}", name, quoted_text(found->name, 60),
                               c10::str(at::IntArrayRef(shape)), first_file_, c10::str(at::IntArrayRef(array.shape))));
    }
    array.numbers.push_back(static_cast<std::size_t>(found - file->arrays().begin()));
  }
  std::int64_t end = 0;
  if (__builtin_add_overflow(begins_.back(), *rows, &end)) throw IoError(format("{}: its number of rows is absurd", name));
  begins_.push_back(end);
  files_.push_back(std::move(file));
}

const ArrayDataset::Array* ArrayDataset::find(const std::string& name) const {
  const auto found = std::ranges::find(arrays_, name, &Array::name);
  return found == arrays_.end() ? nullptr : &*found;
}

bool ArrayDataset::has(const std::string& name) const { return find(name) != nullptr; }

const std::vector<std::int64_t>& ArrayDataset::shape(const std::string& name) const {
  const Array* const array = find(name);
  if (array == nullptr) throw MisuseError(format("ArrayDataset: there is no array {}", quoted_text(name)));
  return array->shape;
}

/// File by file, and then in the order of the indices.
at::Tensor ArrayDataset::read(const Array& array, std::span<const std::int64_t> indices) const {
  if (files_.size() == 1) return files_[0]->read(array.numbers[0], indices);
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> place_of(indices.size());
  std::int64_t place = 0;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    std::vector<std::int64_t> rows;
    for (std::size_t index = 0; index < indices.size(); ++index) {
      if (indices[index] < begins_[file] || indices[index] >= begins_[file + 1]) continue;
      rows.push_back(indices[index] - begins_[file]);
      place_of[index] = place++;
    }
    if (!rows.empty()) parts.push_back(files_[file]->read(array.numbers[file], rows));
  }
  if (parts.empty()) return files_[0]->read(array.numbers[0], indices);
  return at::cat(parts, 0).index_select(0, at::tensor(place_of, at::kLong));
}

Batch ArrayDataset::get_batch(std::span<const std::int64_t> indices) const {
  Batch batch;
  for (const Array& array : arrays_) batch.set(array.name, as_in_batches(read(array, indices), array.name, options_.scale));
  return batch;
}

at::Tensor ArrayDataset::read_all(const std::string& name) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  shape(name);
  return as_in_batches(read(*find(name), all), name, options_.scale);
}

std::optional<std::uint64_t> ArrayDataset::fingerprint() const {
  DataFingerprint fingerprint;
  fingerprint.add(size());
  for (const Array& array : arrays_) fingerprint.add(array.name).add(array.shape);
  if (size() > 0) fingerprint.add(get_batch(std::vector<std::int64_t>{0, size() - 1}));
  return fingerprint.value();
}

}  // namespace levin
