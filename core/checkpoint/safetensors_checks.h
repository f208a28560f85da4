#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace levin {

/// A checksum of a file, and whether it is that of what it covers.
struct ChecksumReport {
  std::string what;  ///< "tensor data"
  bool holds = true;
};

/// The checksums of a safetensors file's bytes: those of levin's checkpoints, none in other files. Throws IoError when it is no
/// whole safetensors file.
std::vector<ChecksumReport> safetensors_checks(std::string_view file);

/// Writes tensors as any program reads them, without a manifest. Throws IoError.
void save_safetensors(const std::filesystem::path& file, const std::map<std::string, at::Tensor>& tensors);

}  // namespace levin
