#include "levin/core/engine/resume/gradient_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

std::map<std::string, at::Tensor> gradients_of(const Module& module) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const at::Tensor own = gradient.detach().to(at::kCPU, parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    gradients[name] = own.is_sparse() ? own : own.contiguous();
  }
  return gradients;
}

void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor) {
  const at::NoGradGuard no_grad;
  const auto all = module.named_parameters();
  for (const auto& [name, gradient] : gradients) {
    if (all.find(name) == nullptr) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of parameters that the module lacks.");
    }
  }
  for (auto& [name, parameter] : distinct_parameters(module)) {
    const auto saved = gradients.find(name);
    if (saved == gradients.end()) {
      parameter.mutable_grad().reset();
      continue;
    }
    if (saved->second.sizes() != parameter.sizes()) {
      std::ostringstream text;
      text << "ckpt_path: the gradient of " << name << " is of shape " << saved->second.sizes() << ", the parameter of "
           << parameter.sizes() << ".";
      throw ConfigError(text.str());
    }
    at::Tensor gradient = saved->second.to(parameter.device(), parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (factor != 1.0) gradient.mul_(factor);
    parameter.mutable_grad() = gradient;
  }
}

namespace {

/// How many elements a packed gradient has where it is sparse.
constexpr std::int64_t kDense = -1;

void append_tensor(std::string& bytes, const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  bytes.append(static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes());
}

constexpr const char* kNotThese = "The gradients that a rank sent for a checkpoint are not those of this module's parameters.";

at::Tensor read_tensor(ByteReader& reader, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(type));
  const std::string_view bytes = reader.take(tensor.nbytes());
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor read_gradient(ByteReader& reader, const at::Tensor& parameter) {
  const auto elements = reader.number<std::int64_t>();
  if (elements == kDense) return read_tensor(reader, parameter.sizes(), parameter.scalar_type());
  // Embeddings have an index for each row.
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  if (sizes.empty() || elements < 0 || static_cast<std::uint64_t>(elements) > reader.left()) throw DesyncError(kNotThese);
  sizes[0] = elements;
  const at::Tensor indices = read_tensor(reader, {1, elements}, at::kLong);
  return at::sparse_coo_tensor(indices, read_tensor(reader, sizes, parameter.scalar_type()), parameter.sizes());
}

}  // namespace

std::string pack_gradients(const std::map<std::string, at::Tensor>& gradients) {
  std::string bytes;
  for (const auto& [name, gradient] : gradients) {
    append_text(bytes, name);
    append_number(bytes, gradient.is_sparse() ? gradient._nnz() : kDense);
    if (gradient.is_sparse()) append_tensor(bytes, gradient._indices());
    append_tensor(bytes, gradient.is_sparse() ? gradient._values() : gradient);
  }
  return bytes;
}

std::map<std::string, at::Tensor> unpack_gradients(const Module& module, const std::string& bytes) {
  const auto parameters = module.named_parameters();
  std::map<std::string, at::Tensor> gradients;
  for (ByteReader reader(bytes, kNotThese); reader.left() > 0;) {
    const std::string name = reader.text();
    const at::Tensor* parameter = parameters.find(name);
    if (parameter == nullptr) throw DesyncError(kNotThese);
    gradients.emplace(name, read_gradient(reader, *parameter));
  }
  return gradients;
}

}  // namespace levin
