#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/optimizers.h"

using Tensors = std::vector<at::Tensor>;

constexpr int kReferenceSteps = 40;

/// As optimizer_parameters() in make_reference.py: those that an optimizer of this kind can step.
inline Tensors reference_parameters(const std::string& kind = "") {
  std::vector<std::vector<std::int64_t>> shapes = {{3, 4}, {6, 2}, {5}, {}, {2, 2, 3}};
  if (kind == "Muon") shapes.resize(2);
  if (kind == "SparseAdam") shapes.erase(shapes.begin() + 3);
  Tensors parameters;
  std::int64_t first = 0;
  for (const auto& shape : shapes) {
    const std::int64_t count = c10::multiply_integers(shape);
    const at::Tensor values = torch::arange(first, first + count).remainder(17).to(torch::kDouble) / 8 - 1;
    parameters.push_back(values.to(torch::kFloat).reshape(shape).requires_grad_());
    first += count;
  }
  return parameters;
}

/// As optimizer_gradient() there.
inline at::Tensor reference_gradient(const at::Tensor& parameter, std::size_t number, int step) {
  if (number == 1 && step % 3 == 2) return {};
  const at::Tensor index = torch::arange(parameter.numel(), torch::kDouble);
  return (index * 1.3 + 0.9 * step + static_cast<double>(number)).sin().to(torch::kFloat).reshape(parameter.sizes());
}

/// As sparse_gradient() there.
inline at::Tensor sparse_reference_gradient(const at::Tensor& parameter, std::size_t number, int step) {
  if (number == 1 && step % 3 == 2) return {};
  const std::int64_t count = parameter.size(0);
  std::vector<std::int64_t> rows;
  if (number != 2 || step % 5 != 4) rows = {step % count, (3 * step + 1) % count};
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[0] = 2;
  const at::Tensor values =
      reference_gradient(torch::zeros(sizes), 0, step).narrow(0, 0, static_cast<std::int64_t>(rows.size()));
  return torch::sparse_coo_tensor(torch::tensor(rows, torch::kLong).unsqueeze(0), values, parameter.sizes());
}

/// Lowers the rate half-way, as there.
inline void take_step(torch::optim::Optimizer& optimizer, int step) {
  auto& group = optimizer.param_groups()[0];
  if (step == kReferenceSteps / 2) levin::set_lr(group, levin::get_lr(group) * 0.5);
  for (std::size_t number = 0; number < group.params().size(); ++number) {
    at::Tensor& parameter = group.params()[number];
    const bool is_sparse = dynamic_cast<levin::SparseAdam*>(&optimizer) != nullptr;
    parameter.mutable_grad() = (is_sparse ? sparse_reference_gradient : reference_gradient)(parameter, number, step);
  }
  optimizer.step();
}
