#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/value.h"

namespace levin {

/// The kind of a file of tensors, detected from its content.
enum class TensorFileKind : std::uint8_t {
  kLevin,             ///< a checkpoint of levin
  kSafetensors,       ///< any other safetensors file
  kSafetensorsIndex,  ///< Hugging Face's model.safetensors.index.json, with the files that it names
  kStateDict,         ///< torch.save(state_dict): .pt, .pth
  kLightning,         ///< a checkpoint of Lightning
  kPackage,           ///< a package of Python's levin_train.export(): its weights, and levin.json as the manifest
  kLibTorch,          ///< LibTorch's torch::save(module) or torch::save(tensor), in C++
  kOptimizer          ///< torch::save(optimizer): its state, with its options in the manifest; no weights
};
/// "levin checkpoint", …: for messages.
LEVIN_API const char* kind_name(TensorFileKind kind);

/// A file of tensors of any kind.
struct LEVIN_API TensorFile {
  TensorFileKind kind = TensorFileKind::kLevin;
  /// Tensors, and the manifest, empty if the file has none. A Lightning checkpoint is converted to levin's form: weights under
  /// `state_dict.`, and optimizers, loops, schedulers and hyper_parameters; "not_read" in the manifest lists what could not be
  /// converted. Tensors that shared memory when they were saved share it here.
  Checkpoint content;
  /// The names of the tensors, in the file's order.
  std::vector<std::string> names;
  /// Contents of a file of torch.save() that levin does not read: "'model_ema' (12 tensors)".
  std::vector<std::string> not_read;

  /// Maps a file, or the folder with Hugging Face's index, into memory. Never runs code of a file. `map_location`: the device
  /// for the tensors, "cpu" or "cuda:1"; empty: none. `key`: the dict of weights in a file of torch.save(), such as "generator"
  /// or "models.generator", or the module of a torch::save(); empty: the whole file, or "state_dict", "model" and the like.
  /// Throws an IoError that names the file and the problem, and ConfigError when there is no such device.
  static TensorFile open(const std::filesystem::path& path, const std::string& map_location = {}, const std::string& key = {});
  /// Opens a file for its weights. Throws ConfigError, too, when it holds something else.
  static TensorFile open_weights(const std::filesystem::path& path, const std::string& map_location = {},
                                 const std::string& key = {});
  /// Verifies the checksums of a file or folder. Throws an IoError that names the file.
  static std::vector<ChecksumReport> checks(const std::filesystem::path& path);
  /// The file itself, or the one in a Hugging Face folder. Throws IoError when the folder has none.
  static std::filesystem::path place(const std::filesystem::path& path);
  /// True when the folder holds such a file.
  static bool is_model_folder(const std::filesystem::path& folder);
  /// The weights by their names in the module, in order.
  std::vector<std::pair<std::string, at::Tensor>> weights() const;
};

/// The formats that export_file() writes.
enum class ExportFormat : std::uint8_t {
  kSafetensors,  ///< for Python's safetensors, without a manifest
  kStateDict,    ///< for torch.load(weights_only=True), and torch::pickle_load() of LibTorch
  kLightning     ///< for Lightning's fit(ckpt_path=…), which resumes if the file has more than weights
};

/// Of a file of this format: ".safetensors", ".pt", and ".lightning.ckpt", which says that it is none of levin's.
LEVIN_API const char* file_ending(ExportFormat format);

struct LEVIN_API ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  std::string prefix = {};      ///< only weights whose names begin with this, without it
  std::string add_prefix = {};  ///< added before each name: "model."
  std::string key = {};         ///< the dict of tensors in a file of torch.save(), as for TensorFile::open()
};

/// Writes the weights of a file that TensorFile::open() takes, and for Lightning the rest of the training state, for other
/// programs. Throws IoError, and ConfigError when no weight has the prefix.
LEVIN_API void export_file(const std::filesystem::path& file, const std::filesystem::path& output,
                           const ExportOptions& options);

}  // namespace levin
