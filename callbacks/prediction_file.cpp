#include "levin/callbacks/prediction_file.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <charconv>
#include <cmath>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/files/atomic_file.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

fs::path with_ending(fs::path stem, const std::string& ending) { return stem += ending; }

/// One block of memory in row-major order on the CPU.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous(); }

// ---- CSV
// ----------------------------------------------------------------------------------------------------------------------

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

/// Shortest text that reads back to the same number of this type.
template <class Number>
void append_number(std::string& text, Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) {
      text += "NaN";  // as in metrics.csv
      return;
    }
  }
  std::array<char, 32> buffer;
  text.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
}

/// A tensor whose rows become fields.
class CsvColumns {
 public:
  CsvColumns(const std::string& name, const at::Tensor& tensor)
      : name_(name), is_vector_(tensor.dim() > 1 && tensor.numel() != tensor.size(0)) {
    const at::Tensor rows =
        tensor.reshape({tensor.size(0), is_vector_ ? tensor.numel() / std::max<std::int64_t>(1, tensor.size(0)) : 1});
    type_ = !rows.is_floating_point() ? at::kLong : rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    values_ = plain(rows.to(type_));
  }

  std::string header() const {
    if (!is_vector_) return csv_field(name_);
    std::vector<std::string> names;
    for (std::int64_t column = 0; column < values_.size(1); ++column)
      names.push_back(csv_field(format("{}_{}", name_, column)));
    return join(names, ",");
  }

  void append(std::string& line, std::int64_t row) const {
    if (type_ == at::kLong) append_row<std::int64_t>(line, row);
    if (type_ == at::kDouble) append_row<double>(line, row);
    if (type_ == at::kFloat) append_row<float>(line, row);
  }

 private:
  template <class Number>
  void append_row(std::string& line, std::int64_t row) const {
    const Number* values = values_.const_data_ptr<Number>() + row * values_.size(1);
    for (std::int64_t column = 0; column < values_.size(1); ++column) {
      if (column > 0) line += ',';
      append_number(line, values[column]);
    }
  }

  std::string name_;
  bool is_vector_;
  at::ScalarType type_ = at::kFloat;
  at::Tensor values_;
};

fs::path write_csv(const fs::path& stem, const std::vector<Batch::Item>& items) {
  std::vector<CsvColumns> columns;
  for (const auto& [name, tensor] : items) columns.emplace_back(name, tensor);
  const fs::path path = with_ending(stem, ".csv");
  AtomicFile file(path);
  file.write(join(columns, ",", &CsvColumns::header) + "\n");
  std::string line;
  for (std::int64_t row = 0; row < items.front().second.size(0); ++row) {
    line.clear();
    for (const CsvColumns& column : columns) {
      if (!line.empty()) line += ',';
      column.append(line, row);
    }
    file.write(line += '\n');
  }
  file.commit();
  return path;
}

// ---- NumPy
// --------------------------------------------------------------------------------------------------------------------

/// NumPy's name of a type; bfloat16, which it does not have, is written as float32.
const char* npy_type(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return "|b1";
    case at::kByte:
      return "|u1";
    case at::kChar:
      return "|i1";
    case at::kShort:
      return "<i2";
    case at::kInt:
      return "<i4";
    case at::kLong:
      return "<i8";
    case at::kHalf:
      return "<f2";
    case at::kDouble:
      return "<f8";
    default:
      return "<f4";
  }
}

fs::path write_npy(const fs::path& path, const at::Tensor& tensor) {
  const bool is_known = tensor.scalar_type() == at::kFloat || std::string_view(npy_type(tensor.scalar_type())) != "<f4";
  const at::Tensor values = plain(is_known ? tensor : tensor.to(at::kFloat));
  std::string shape;
  for (const std::int64_t size : values.sizes()) shape += format("{}, ", size);
  if (values.dim() > 1) shape.resize(shape.size() - 2);
  std::string header =
      format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", npy_type(values.scalar_type()), shape);
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kMagic = 10;  // with version and length
  while ((kMagic + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() % 256);
  head += static_cast<char>(header.size() / 256);
  AtomicFile file(path);
  file.write(head + header);
  file.write({static_cast<const char*>(values.const_data_ptr()), static_cast<std::size_t>(values.nbytes())});
  file.commit();
  return path;
}

}  // namespace

std::vector<fs::path> write_predictions(const fs::path& stem, PredictionFormat format_of_files,
                                        const std::vector<Batch::Item>& columns) {
  if (format_of_files == PredictionFormat::kCsv) return {write_csv(stem, columns)};
  if (format_of_files == PredictionFormat::kSafetensors) {
    Checkpoint tensors;
    for (const auto& [name, tensor] : columns) tensors.tensors[name] = tensor;
    const fs::path path = with_ending(stem, ".safetensors");
    tensors.save(path);
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& [name, tensor] : columns) {
    files.push_back(write_npy(with_ending(stem, columns.size() == 1 ? ".npy" : format("-{}.npy", name)), tensor));
  }
  return files;
}

}  // namespace levin::detail
