#include "levin/core/engine/step/gradients.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <limits>

#include "levin/core/optimizers/optimizer_access.h"

namespace levin {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors with_gradients(const std::vector<at::ScalarType>& types, double scale) {
  torch::manual_seed(7);
  Tensors parameters;
  for (const at::ScalarType type : types) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{13, 7}, {}, {0, 2}, {64}}) {
      at::Tensor parameter = torch::zeros(sizes, type).requires_grad_();
      parameter.mutable_grad() = (torch::randn(sizes, torch::kDouble) * scale).to(type);
      parameters.push_back(parameter);
    }
  }
  parameters.push_back(torch::zeros({3}).requires_grad_());  // has none
  return parameters;
}

torch::optim::SGD optimizer_of(const Tensors& parameters) { return torch::optim::SGD(parameters, 0.1); }

Tensors gradients(const Tensors& parameters) {
  Tensors all;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined())
      all.push_back(parameter.grad().is_sparse() ? parameter.grad().to_dense() : parameter.grad());
  }
  return all;
}

/// The largest difference, NaN and infinity equal to themselves.
void check_same(const Tensors& one, const Tensors& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    INFO(i);
    CHECK(at::allclose(one[i], other[i], /*rtol=*/1e-6, /*atol=*/1e-9, /*equal_nan=*/true));
  }
}

const std::vector<std::vector<at::ScalarType>> kTypes = {{torch::kFloat},
                                                         {torch::kDouble},
                                                         {torch::kFloat, torch::kDouble},
                                                         {torch::kBFloat16, torch::kFloat},
                                                         {torch::kComplexFloat}};

}  // namespace

TEST_CASE("gradients are clipped to a norm as torch clips them") {
  for (const auto& types : kTypes) {
    for (const double scale : {0.001, 1.0, 50.0}) {
      INFO(types.front() << " " << scale);
      const Tensors ours = with_gradients(types, scale);
      const Tensors theirs = with_gradients(types, scale);
      torch::optim::SGD optimizer = optimizer_of(ours);
      clip_gradients(optimizer, 1.5, GradientClipAlgorithm::kNorm);
      torch::nn::utils::clip_grad_norm_(theirs, 1.5);
      check_same(gradients(ours), gradients(theirs));
    }
  }
}

TEST_CASE("a gradient that is NaN or infinite is clipped as torch clips it") {
  const double bad = GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  const auto algorithm = GENERATE(GradientClipAlgorithm::kNorm, GradientClipAlgorithm::kValue);
  const Tensors ours = with_gradients({torch::kFloat}, 1.0);
  const Tensors theirs = with_gradients({torch::kFloat}, 1.0);
  for (const Tensors* each : {&ours, &theirs}) each->front().mutable_grad().view(-1)[3] = bad;
  torch::optim::SGD optimizer = optimizer_of(ours);
  clip_gradients(optimizer, 0.5, algorithm);
  if (algorithm == GradientClipAlgorithm::kNorm) {
    torch::nn::utils::clip_grad_norm_(theirs, 0.5);
  } else {
    torch::nn::utils::clip_grad_value_(theirs, 0.5);
  }
  check_same(gradients(ours), gradients(theirs));
}

TEST_CASE("gradients are clipped to values, and scaled, whatever their types") {
  for (const auto& types : kTypes) {
    INFO(types.front());
    const Tensors scaled = with_gradients(types, 3.0);
    const Tensors before = with_gradients(types, 3.0);
    torch::optim::SGD optimizer = optimizer_of(scaled);
    scale_gradients(optimizer, 0.25);
    for (std::size_t i = 0; i + 1 < scaled.size(); ++i) CHECK(scaled[i].grad().equal(before[i].grad() * 0.25));
    if (types.front() == torch::kComplexFloat) continue;  // has no order
    clip_gradients(optimizer, 0.5, GradientClipAlgorithm::kValue);
    for (std::size_t i = 0; i + 1 < scaled.size(); ++i)
      CHECK(scaled[i].grad().equal((before[i].grad() * 0.25).clamp(-0.5, 0.5)));
  }
}

TEST_CASE("sparse gradients are clipped and scaled beside dense ones") {
  const auto made = [] {
    Tensors parameters = with_gradients({torch::kFloat}, 1.0);
    at::Tensor table = torch::zeros({5, 2}).requires_grad_();
    table.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1, 3}}), torch::tensor({{3.F, 4.F}, {5.F, 6.F}}), {5, 2});
    parameters.push_back(table);
    return parameters;
  };
  const Tensors ours = made();
  const Tensors theirs = made();
  torch::optim::SGD optimizer = optimizer_of(ours);
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kNorm);
  torch::nn::utils::clip_grad_norm_(theirs, 1.0);
  check_same(gradients(ours), gradients(theirs));
  scale_gradients(optimizer, 2.0);
  CHECK(at::allclose(ours.back().grad().to_dense(), theirs.back().grad().to_dense() * 2));
}

TEST_CASE("without gradients nothing is clipped, scaled or set to zero") {
  torch::optim::SGD optimizer({torch::zeros({2}).requires_grad_()}, 0.1);
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kNorm);
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kValue);
  scale_gradients(optimizer, 2.0);
  zero_grad(optimizer, /*set_to_none=*/false);
  CHECK_FALSE(optimizer.param_groups()[0].params()[0].grad().defined());
}

}  // namespace levin
