#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/formats/pickle.h"

namespace levin {

/// What a call in a pickle stands for, without calling anything: tensors, dicts and torch.Size as such, all else as a
/// PickleObject. Throws IoError on arguments with which torch never calls them.
PickleValue call_as_data(const std::string& callable, const std::vector<PickleValue*>& arguments);

/// What a value is where it stands for a tensor that is not read, and what to do: "a sparse tensor, …". Empty for anything
/// else.
std::string foreign_tensor(const PickleValue& value);

/// The storage that a persistent id of torch's names: ("storage", torch.FloatStorage, key, location, elements). Throws IoError.
PickleStorage storage_of_id(const PickleValue& id);

/// "torch.FloatStorage" of "float32"; that of bytes without a type for a dtype that has none of its own.
std::string storage_class(std::string_view dtype);

/// "float32" of "torch.FloatStorage" or "torch.float32"; empty for another name, and for bytes without a type.
std::string_view dtype_of_name(std::string_view name);

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
