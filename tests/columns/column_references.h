#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/tensor_file.h"
#include "support/file_text.h"

namespace levin::test {

/// The folder of what make_references.py writes.
inline const std::filesystem::path kColumnFolder = std::filesystem::path(LEVIN_SOURCE_DIR) / "tests/columns";
inline const std::filesystem::path kColumnFiles = kColumnFolder / "files";

/// What other programs read from the files: tensors by "FILE/COLUMN", and the texts of columns of texts, as lists with null.
struct ColumnReferences {
  std::map<std::string, at::Tensor> tensors;
  Value texts;
};

inline const ColumnReferences& column_references() {
  static const ColumnReferences references = [] {
    const std::filesystem::path file = kColumnFolder / "references.safetensors";
    return ColumnReferences{.tensors = TensorFile::open(file).content.tensors,
                            .texts = parse_json(parse_safetensors(read_text(file)).metadata.at("texts"))};
  }();
  return references;
}

/// Equal in shape and type, and in each value, NaN too.
inline bool same_values(const at::Tensor& values, const at::Tensor& expected) {
  return values.sizes() == expected.sizes() && values.scalar_type() == expected.scalar_type() &&
         at::allclose(values.to(at::kDouble), expected.to(at::kDouble), 0, 0, /*equal_nan=*/true);
}

}  // namespace levin::test
