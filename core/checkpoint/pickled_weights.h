#pragma once

#include <string>
#include <vector>

#include "levin/core/checkpoint/pickle.h"

namespace levin {

/// Where the weights are in what torch.save() was given.
struct PickledWeights {
  const PickleValue* value = nullptr;  ///< a dict with tensors, or one tensor
  std::string name;                    ///< of the one tensor
  std::vector<std::string> beside;     ///< what else is there: "'model_ema' (12 tensors)"
};

/// The whole of it, or what training loops of one's own call it ("model"); with a `key`, what is there under that name, or
/// under several joined by dots. Throws IoError, which lists what is there, where that is no dict of tensors, and no tensor.
PickledWeights find_weights(const PickleValue& root, const std::string& key);

}  // namespace levin
