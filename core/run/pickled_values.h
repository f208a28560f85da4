#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace levin {

/// Values, tensors among them, as bytes between ranks, by LibTorch's own pickle, and back.
std::string pickled(std::vector<c10::IValue> values);
std::vector<c10::IValue> unpickled(const std::string& bytes);

}  // namespace levin
