#include "levin/strategies/gradients/apart_gradients.h"

#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

// What a rank says of a gradient, where it is not how many elements a sparse one has.
constexpr std::int64_t kNone = -2;
constexpr std::int64_t kDense = -1;

bool has_sparse_gradient(const torch::nn::Module& module) {
  const auto* embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&module);
  const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&module);
  return (embedding != nullptr && embedding->options.sparse()) || (bag != nullptr && bag->options.sparse());
}

std::int64_t kind_of_gradient(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return kNone;
  return gradient.is_sparse() && gradient.is_cpu() && !gradient.is_complex() ? gradient._nnz() : kDense;
}

/// The sum over ranks, in place.
void sum_over_ranks(ProcessWorld& world, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  world.process_group()->allreduce(tensors)->wait();
}

// Divided first, as the reducer does it.
at::Tensor dense_mean(ProcessWorld& world, const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  const at::Tensor own = gradient.defined() ? gradient.to_dense() : torch::zeros_like(parameter);
  at::Tensor mean = own.div(world.process_group()->getSize()).resolve_conj().contiguous();
  sum_over_ranks(world, as_real(mean));
  return mean;
}

at::Tensor sparse_mean(ProcessWorld& world, const at::Tensor& parameter, bool is_empty) {
  const at::Tensor& gradient = parameter.grad();
  const auto options = parameter.options().requires_grad(false).layout(at::kSparse);
  const at::Tensor own = gradient.defined() ? gradient.coalesce() : torch::empty(parameter.sizes(), options);
  if (is_empty) return own;
  // Embeddings have an index for each row; an empty tensor would have one for each element.
  const std::vector<std::int64_t> row_sizes = parameter.sizes().slice(1).vec();
  std::vector<std::int64_t> no_rows = {0};
  no_rows.insert(no_rows.end(), row_sizes.begin(), row_sizes.end());
  at::Tensor mean = own._nnz() > 0 ? own.div(world.process_group()->getSize())
                                   : torch::sparse_coo_tensor(torch::empty({1, 0}, torch::kLong),
                                                              torch::empty(no_rows, options.layout(at::kStrided)),
                                                              parameter.sizes(), options);
  sum_over_ranks(world, mean);
  return mean;
}

}  // namespace

std::vector<at::Tensor> parameters_apart(const torch::nn::Module& module) {
  std::vector<at::Tensor> sparse;
  const auto add = [&](const torch::nn::Module& part) {
    if (!has_sparse_gradient(part)) return;
    for (const at::Tensor& weight : part.parameters(/*recurse=*/false)) sparse.push_back(weight);
  };
  add(module);
  for (const auto& part : module.modules(/*include_self=*/false)) add(*part);
  std::vector<at::Tensor> apart;
  for (const auto& entry : distinct_parameters(module)) {
    const at::Tensor& parameter = entry.second;  // no structured binding: clang 14 does not let a lambda use one
    const auto is_it = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (parameter.is_complex() || std::any_of(sparse.begin(), sparse.end(), is_it)) apart.push_back(parameter);
  }
  return apart;
}

void reduce_apart(ProcessWorld& world, const std::vector<at::Tensor>& parameters, const Meeting& meeting) {
  if (parameters.empty()) return;
  std::vector<std::int64_t> mine;
  for (const at::Tensor& parameter : parameters) mine.push_back(kind_of_gradient(parameter));
  const std::vector<std::byte> bytes =
      RankExchange(world.control_group()).gather_bytes(std::as_bytes(std::span(mine)), meeting);
  std::vector<std::int64_t> all(bytes.size() / sizeof(std::int64_t));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const at::NoGradGuard no_grad;
  world.board().begin_reduction();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    bool is_dense = false;
    std::int64_t most = kNone;
    for (std::size_t at = index; at < all.size(); at += parameters.size()) {
      is_dense |= all[at] == kDense;
      most = std::max(most, all[at]);
    }
    if (most == kNone) continue;
    const at::Tensor& parameter = parameters[index];
    parameter.mutable_grad() = is_dense ? dense_mean(world, parameter) : sparse_mean(world, parameter, most == 0);
  }
  world.board().end_reduction();
}

at::Tensor as_real(const at::Tensor& tensor) { return tensor.is_complex() ? torch::view_as_real(tensor) : tensor; }

}  // namespace levin
