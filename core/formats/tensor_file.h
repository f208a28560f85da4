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

/// What a file of tensors is, told by its content.
enum class TensorFileKind : std::uint8_t {
  kLevin,             ///< a checkpoint of levin's
  kSafetensors,       ///< any other safetensors file
  kSafetensorsIndex,  ///< Hugging Face's model.safetensors.index.json, with the files that it names
  kStateDict,         ///< torch.save(state_dict): .pt, .pth
  kLightning,         ///< a checkpoint of Lightning's
  kPackage,           ///< a package of Python's levin_train.export(): its weights, and levin.json as the manifest
  kLibTorch,          ///< torch::save(module) or torch::save(tensor) of LibTorch's, in C++
  kOptimizer          ///< torch::save(optimizer): no weights, but its state, and its options in the manifest
};
/// "levin checkpoint", …: for messages.
LEVIN_API const char* kind_name(TensorFileKind kind);

/// A file of tensors of any kind.
struct LEVIN_API TensorFile {
  TensorFileKind kind = TensorFileKind::kLevin;
  /// Tensors, and the manifest, empty where the file has none. Those of a Lightning checkpoint are as levin would have saved
  /// them: weights under `state_dict.`, and optimizers, loops, schedulers and hyper_parameters; "not_read" in the manifest says
  /// what could not be taken over. Tensors that shared memory when they were saved do so here.
  Checkpoint content;
  /// The names of the tensors, in the file's order.
  std::vector<std::string> names;
  /// What else a file of torch.save() holds, which is not read: "'model_ema' (12 tensors)".
  std::vector<std::string> beside;

  /// Opens a file, or the folder with Hugging Face's index. It is mapped into memory. No code of a file is ever run.
  /// `map_location`: the device onto which the tensors go, "cpu" or "cuda:1"; empty: none. `key`: where the weights are in what
  /// torch.save() was given, as "generator" or "models.generator", or which module of a torch::save(); empty: the whole of it,
  /// or "state_dict", "model" and the like. Throws IoError, which names the file and says what is wrong with it, and
  /// ConfigError when there is no such device.
  static TensorFile open(const std::filesystem::path& path, const std::string& map_location = {}, const std::string& key = {});
  /// The same for whoever wants weights: ConfigError, too, when the file holds something else.
  static TensorFile open_weights(const std::filesystem::path& path, const std::string& map_location = {},
                                 const std::string& key = {});
  /// The checksums that a file or folder has, and whether they hold. Throws IoError, which names the file.
  static std::vector<ChecksumReport> checks(const std::filesystem::path& path);
  /// The file itself, or the one in a folder of Hugging Face's. Throws IoError when there is none in it.
  static std::filesystem::path place(const std::filesystem::path& path);
  /// There is such a file in this folder.
  static bool is_model_folder(const std::filesystem::path& folder);
  /// The weights by their names in the module, in order.
  std::vector<std::pair<std::string, at::Tensor>> weights() const;
};

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

/// Writes the weights of a file that TensorFile::open() takes, and for Lightning what training needs beside them, as other
/// programs read them. Throws IoError, and ConfigError when no weight has the prefix.
LEVIN_API void export_file(const std::filesystem::path& file, const std::filesystem::path& output,
                           const ExportOptions& options);

}  // namespace levin
