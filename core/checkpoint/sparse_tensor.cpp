#include "levin/core/checkpoint/sparse_tensor.h"

#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/error.h"

namespace levin {

namespace {

constexpr std::string_view kIndices = ".sparse_indices";
constexpr std::string_view kValues = ".sparse_values";

}  // namespace

void save_tensor(Checkpoint& checkpoint, const std::string& name, const at::Tensor& tensor) {
  if (!tensor.is_sparse()) {
    checkpoint.tensors[name] = tensor.detach();
    return;
  }
  checkpoint.tensors[name + std::string(kIndices)] = tensor._indices();
  checkpoint.tensors[name + std::string(kValues)] = tensor._values().detach();
}

at::Tensor saved_sparse_tensor(const Checkpoint& checkpoint, const std::string& name, at::IntArrayRef sizes) {
  const auto indices = checkpoint.tensors.find(name + std::string(kIndices));
  const auto values = checkpoint.tensors.find(name + std::string(kValues));
  if (indices == checkpoint.tensors.end() || values == checkpoint.tensors.end()) return {};
  try {
    at::_validate_sparse_coo_tensor_args(indices->second, values->second, sizes);
    return at::sparse_coo_tensor(indices->second, values->second, sizes);
  } catch (const c10::Error& error) {
    throw ConfigError(format("The checkpoint's sparse '{}' does not fit its parameter of shape {}: {}", name, c10::str(sizes),
                             error.what_without_backtrace()));
  }
}

std::optional<std::string> name_of_sparse_tensor(std::string_view part) {
  if (!part.ends_with(kIndices)) return std::nullopt;
  return std::string(part.substr(0, part.size() - kIndices.size()));
}

bool is_of_sparse_values(std::string_view part) { return part.ends_with(kValues); }

}  // namespace levin
