#include "levin/core/resume/gradient_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <sstream>

#include "levin/core/error.h"
#include "levin/core/module.h"

namespace levin {

std::map<std::string, at::Tensor> gradients_of(const Module& module) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& entry : module.named_parameters()) {
    const at::Tensor& gradient = entry.value().grad();
    if (!gradient.defined()) continue;
    const at::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
    gradients[entry.key()] = dense.detach().to(at::kCPU, entry.value().scalar_type()).contiguous().clone();
  }
  return gradients;
}

void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor) {
  const at::NoGradGuard no_grad;
  std::size_t found = 0;
  for (auto& entry : module.named_parameters()) {
    at::Tensor& parameter = entry.value();
    const auto saved = gradients.find(entry.key());
    if (saved == gradients.end()) {
      parameter.mutable_grad().reset();
      continue;
    }
    ++found;
    if (saved->second.sizes() != parameter.sizes()) {
      std::ostringstream text;
      text << "ckpt_path: the gradient of " << entry.key() << " is of shape " << saved->second.sizes() << ", the parameter of "
           << parameter.sizes() << ".";
      throw ConfigError(text.str());
    }
    at::Tensor gradient = saved->second.to(parameter.device(), parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (factor != 1.0) gradient.mul_(factor);
    parameter.mutable_grad() = gradient;
  }
  if (found != gradients.size()) {
    throw ConfigError("ckpt_path: the checkpoint has gradients of parameters that the module lacks.");
  }
}

std::string pack_gradients(const std::map<std::string, at::Tensor>& gradients) {
  std::string bytes;
  for (const auto& [name, gradient] : gradients) {
    bytes.append(name.c_str(), name.size() + 1);
    bytes.append(static_cast<const char*>(gradient.const_data_ptr()), gradient.nbytes());
  }
  return bytes;
}

std::map<std::string, at::Tensor> unpack_gradients(const Module& module, const std::string& bytes) {
  const auto parameters = module.named_parameters();
  std::map<std::string, at::Tensor> gradients;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string name = bytes.c_str() + at;
    at += name.size() + 1;
    const at::Tensor* parameter = parameters.find(name);
    if (parameter == nullptr || bytes.size() - at < parameter->nbytes()) {
      throw DesyncError("The gradients that a rank sent for a checkpoint are not those of this module's parameters.");
    }
    at::Tensor gradient = at::empty(parameter->sizes(), at::TensorOptions(parameter->scalar_type()));
    std::memcpy(gradient.mutable_data_ptr(), bytes.data() + at, gradient.nbytes());
    at += gradient.nbytes();
    gradients.emplace(name, std::move(gradient));
  }
  return gradients;
}

}  // namespace levin
