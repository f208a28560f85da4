#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/config/value.h"

namespace torch::nn {
class Module;
}

namespace levin {

/// How a file's names map to a module's, and what may differ.
struct LEVIN_API WeightsOptions {
  /// A tensor that only the file or only the module has, or whose shape differs, is an error. False: it is skipped.
  bool strict = true;
  /// Only tensors whose name in the file begins with this are read, without it: "encoder." for a submodule.
  std::string prefix = {};
  /// Replacements for the beginnings of names, after the prefix: {{"backbone.", "layers."}}. The longest match counts.
  std::map<std::string, std::string> rename = {};
  /// The device to which the file's tensors go first: "cpu", "cuda:1". Empty: directly to the module's.
  std::string map_location = {};
  /// The dict of tensors to use, if a file of torch.save() holds several: "generator", "models.generator".
  std::string key = {};
};

/// The file that is meant: of "FOLDER:best" and "FOLDER:last", as ckpt_path takes them, and of a run's folder, which means its
/// last, the run's checkpoint; anything else, a folder without checkpoints too, is given back, there or not. Throws ConfigError
/// where "FOLDER:best" or "FOLDER:last" has none.
LEVIN_API std::filesystem::path checkpoint_at(const std::filesystem::path& given);

/// The weights that fit() starts with: arguments of load_weights().
struct LEVIN_API InitialWeights {
  std::filesystem::path path;
  WeightsOptions options = {};
};

/// The names that were loaded and those that differ; the file's without the prefix, and renamed.
struct LEVIN_API WeightsReport {
  std::vector<std::string> loaded = {};
  std::vector<std::string> missing = {};     ///< in the module, not in the file
  std::vector<std::string> unexpected = {};  ///< in the file, not in the module
  std::vector<std::string> misshaped = {};   ///< in both, with different shapes
};

/// Copies weights into a module, converted to its dtypes and device: from a checkpoint of levin's, any safetensors file,
/// Hugging Face's index of several, a state_dict that Python's torch.save() wrote, what LibTorch's torch::save(module) wrote,
/// or a Lightning checkpoint. It reads nothing else of a checkpoint. A tensor that the module has under several names may have
/// any one of them in the file. Rank 0 reports in one line what was loaded and skipped. Throws IoError when it cannot read the
/// file, and ConfigError, which names the file and every name that differs, when `strict`, or when nothing matches; the module
/// is then unchanged. `file` may be "logs/version_0:best", too, as for checkpoint_at(). Ranks: all; each reads the file.
///
///     levin::load_weights(*network, "digits.ckpt", {.strict = false});
LEVIN_API WeightsReport load_weights(torch::nn::Module& module, const std::filesystem::path& file,
                                     const WeightsOptions& options = {});

/// As Lightning's freeze(): no parameter requires a gradient, and the module is in evaluation mode. Trainers notice at the next
/// epoch or backward pass, on any number of ranks.
LEVIN_API void freeze(torch::nn::Module& module);
/// Undoes freeze(): all parameters except integer ones require a gradient, and the module is in training mode.
LEVIN_API void unfreeze(torch::nn::Module& module);

namespace detail {
/// The hyper-parameters of a checkpoint that are in `names`, replaced by those in `overrides`. Errors name the file.
LEVIN_API Value saved_hyperparameters(const std::filesystem::path& file, const std::vector<OptionInfo>& names,
                                      const Value& overrides);
/// Warns where the file's weights were trained on batches that a data module had prepared.
LEVIN_API void warn_of_prepared_data(const std::filesystem::path& file);
}  // namespace detail

}  // namespace levin
