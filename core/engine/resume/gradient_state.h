#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "levin/core/base/fwd.h"

namespace levin {

/// The gradients that a module's parameters hold, by name, on the CPU and not shared with the parameters.
std::map<std::string, at::Tensor> gradients_of(const Module& module);
/// Gives parameters these gradients, times `factor`, and all others none. Throws ConfigError when a name or shape is none of
/// the module's.
void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor);

/// The same as bytes and back, between ranks that have equal parameters.
std::string pack_gradients(const std::map<std::string, at::Tensor>& gradients);
std::map<std::string, at::Tensor> unpack_gradients(const Module& module, const std::string& bytes);

}  // namespace levin
