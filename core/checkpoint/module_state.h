#pragma once

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace levin {

class Checkpoint;

/// Puts a module's parameters and buffers into a checkpoint, as `state_dict.<name>`. They share memory with the module: save
/// the checkpoint before the next step. A tensor that the module holds under two names is saved under both.
void save_module(const torch::nn::Module& module, Checkpoint& checkpoint);

/// Names in which a module and a checkpoint differ.
struct StateDictDifference {
  std::vector<std::string> missing;     ///< in the module, not in the checkpoint
  std::vector<std::string> unexpected;  ///< in the checkpoint, not in the module
};

/// Copies a checkpoint's weights into a module, converting to the module's dtype and device. Throws ConfigError that lists
/// every name whose shape differs and, when `strict`, every missing and unexpected one; the module is then unchanged.
StateDictDifference load_module(torch::nn::Module& module, const Checkpoint& checkpoint, bool strict = true);

}  // namespace levin
