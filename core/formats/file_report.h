#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/options/value.h"

namespace levin {

/// What a file of tensors holds: `levin inspect`.
struct LEVIN_API FileReport {
  struct Tensor {
    std::string name;
    std::string dtype;  ///< "float32", …
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
  };
  /// A checksum, and whether it is that of what it covers.
  struct Check {
    std::string what;
    bool holds = true;
  };
  std::string kind;
  Value manifest;            ///< null without one
  std::string summary = {};  ///< of a package of levin.export(): the manifest in lines to read
  std::vector<Tensor> tensors;
  std::vector<Check> checks;             ///< empty: the file has none, as safetensors of other programs
  std::vector<std::string> beside = {};  ///< what else a file of torch.save() holds: "'model_ema' (12 tensors)"

  bool is_whole() const;
};

/// Reads a file, or the folder with Hugging Face's index, and checks what checksums it has; where one does not hold, tensors
/// and manifest stay empty. `key`: which of several dicts of tensors, as for TensorFile::open(). Throws IoError for anything
/// else than a whole file of tensors.
LEVIN_API FileReport inspect_file(const std::filesystem::path& file, const std::string& key = {});

/// As what a file's weights are written by export_file().
enum class ExportFormat : std::uint8_t {
  kSafetensors,  ///< what Python's safetensors loads, without a manifest
  kStateDict,    ///< what torch.load(weights_only=True) loads
  kLightning     ///< what Lightning's fit(ckpt_path=…) goes on from, where the file has more than weights
};

struct LEVIN_API ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  std::string prefix = {};      ///< only weights whose names begin with this, without it
  std::string add_prefix = {};  ///< what then stands before each name: "model."
  std::string key = {};         ///< which of several dicts of tensors in a file of torch.save(), as for TensorFile::open()
};

/// Writes the weights of a file that inspect_file() takes, and for Lightning what training needs beside them, as other programs
/// read them. Throws IoError, and ConfigError when no weight has the prefix.
LEVIN_API void export_file(const std::filesystem::path& file, const std::filesystem::path& output,
                           const ExportOptions& options);

}  // namespace levin
