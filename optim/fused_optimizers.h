#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <vector>

#include "levin/core/export.h"

// LibTorch's optimizers, of which these have options, state and checkpoints, with steps by ATen's fused kernels:
//
//     levin::AdamW(parameters(), levin::AdamWOptions(1e-3).weight_decay(0.1))
//
// Numbers are those of LibTorch's steps, but for the rounding of the last digit. Where a kernel does not take a parameter
// (sparse or complex gradients, bfloat16 and half, memory with gaps) it is stepped by LibTorch. The last argument, `fused`, is
// false for LibTorch's own step of all parameters.
namespace levin {

class FusedStep;

using SGDOptions = torch::optim::SGDOptions;

/// Stochastic gradient descent, with momentum.
class LEVIN_API SGD : public torch::optim::SGD {
 public:
  explicit SGD(std::vector<at::Tensor> parameters, SGDOptions options, bool fused = true);
  explicit SGD(const std::vector<torch::optim::OptimizerParamGroup>& groups, SGDOptions options, bool fused = true);
  SGD(SGD&& other) noexcept;
  ~SGD() override;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  std::unique_ptr<FusedStep> fused_;  ///< null: LibTorch's own step
};

using AdamOptions = torch::optim::AdamOptions;

/// Adaptive moments (Kingma and Ba 2014).
class LEVIN_API Adam : public torch::optim::Adam {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, AdamOptions options = {}, bool fused = true);
  explicit Adam(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamOptions options = {}, bool fused = true);
  Adam(Adam&& other) noexcept;
  ~Adam() override;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  std::unique_ptr<FusedStep> fused_;  ///< null: LibTorch's own step
};

using AdamWOptions = torch::optim::AdamWOptions;

/// Adam with decoupled weight decay (Loshchilov and Hutter 2017).
class LEVIN_API AdamW : public torch::optim::AdamW {
 public:
  explicit AdamW(std::vector<at::Tensor> parameters, AdamWOptions options = {}, bool fused = true);
  explicit AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamWOptions options = {}, bool fused = true);
  AdamW(AdamW&& other) noexcept;
  ~AdamW() override;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  std::unique_ptr<FusedStep> fused_;  ///< null: LibTorch's own step
};

using AdagradOptions = torch::optim::AdagradOptions;

/// Adaptive gradients (Duchi et al. 2011).
class LEVIN_API Adagrad : public torch::optim::Adagrad {
 public:
  explicit Adagrad(std::vector<at::Tensor> parameters, AdagradOptions options = {}, bool fused = true);
  explicit Adagrad(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdagradOptions options = {},
                   bool fused = true);
  Adagrad(Adagrad&& other) noexcept;
  ~Adagrad() override;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  std::unique_ptr<FusedStep> fused_;  ///< null: LibTorch's own step
};

}  // namespace levin
