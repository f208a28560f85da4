#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/images/functional.h"

namespace levin::test {

/// The files that make_files.py writes.
inline const std::filesystem::path kImageFiles = std::filesystem::path(LEVIN_SOURCE_DIR) / "tests/images/files";

/// The tensors of a safetensors file, by their names.
std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file);

/// What torchvision makes of an image.
struct ImageCase {
  std::string function;
  std::string image;
  Value arguments;
  at::Tensor result;

  std::string title() const;
};

/// references.safetensors, which make_references.py writes.
struct ImageReferences {
  std::map<std::string, at::Tensor> images;
  std::vector<ImageCase> cases;
  Value magnitudes;  ///< lists of operation, bins, size and magnitudes
  Value sizes;       ///< lists of size, shorter side and new size
  std::string cpu;   ///< the instructions of the CPU that computed the results, as LibTorch calls them
};
const ImageReferences& image_references();

/// Equal in type and shape; floats to 1e-6, and uint8 in each value, or to 1 on a CPU with other instructions than that of the
/// references: where it multiplies and adds at once, or not, halves round otherwise.
bool same_image(const at::Tensor& image, const at::Tensor& expected);

images::Size size_in(const Value& list);
/// The argument "interpolation".
Interpolation interpolation_in(const Value& arguments);

}  // namespace levin::test
