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

/// How names of a file become names of a module, and what may differ.
struct LEVIN_API WeightsOptions {
  /// A tensor that only the file or only the module has, or that has another shape, is an error. False: it is left out.
  bool strict = true;
  /// Only tensors whose name in the file begins with this are read, without it: "encoder." for a submodule.
  std::string prefix = {};
  /// Beginnings of names, after the prefix, and what stands in their place: {{"backbone.", "layers."}}. The longest that fits.
  std::map<std::string, std::string> rename = {};
  /// The device onto which the file's tensors go first: "cpu", "cuda:1". Empty: from the file at once to the module's.
  std::string map_location = {};
  /// Which dict of tensors, where a file of torch.save() holds several: "generator", "models.generator".
  std::string key = {};
};

/// Weights for fit() to begin with: what load_weights() takes.
struct LEVIN_API InitialWeights {
  std::filesystem::path path;
  WeightsOptions options = {};
};

/// Names in which a file and a module differ: those of the file without the prefix, and renamed.
struct LEVIN_API WeightsReport {
  std::vector<std::string> loaded = {};
  std::vector<std::string> missing = {};     ///< in the module, not in the file
  std::vector<std::string> unexpected = {};  ///< in the file, not in the module
  std::vector<std::string> misshaped = {};   ///< in both, with different shapes
};

/// Copies weights into a module, converted to its dtypes and device: from a checkpoint of levin's, any safetensors file,
/// Hugging Face's index of several, a state_dict that Python's torch.save() wrote, what LibTorch's torch::save(module) wrote,
/// or a Lightning checkpoint. Nothing else of a checkpoint is read. A tensor that the module holds under several names may
/// stand in the file under one of them. Rank 0 says in one line what was loaded and left out. Throws IoError when the file
/// cannot be read, and ConfigError, which names the file and every name that differs, when `strict`, or when nothing fits; the
/// module is then unchanged. Ranks: call it on all; each reads.
///
///     levin::load_weights(*network, "digits.ckpt", {.strict = false});
LEVIN_API WeightsReport load_weights(torch::nn::Module& module, const std::filesystem::path& file,
                                     const WeightsOptions& options = {});

/// As Lightning's freeze(): no parameter requires a gradient, and the module is in evaluation mode. Trainers notice at the next
/// epoch or backward pass, on any number of ranks.
LEVIN_API void freeze(torch::nn::Module& module);
/// Takes them back: all parameters require a gradient, but those of whole numbers, and the module is in training mode.
LEVIN_API void unfreeze(torch::nn::Module& module);

namespace detail {
/// Those hyper-parameters in a checkpoint that `names` has, or `overrides` in their place. An error in them names the file.
LEVIN_API Value saved_hyperparameters(const std::filesystem::path& file, const std::vector<OptionInfo>& names,
                                      const Value& overrides);
}  // namespace detail

}  // namespace levin
