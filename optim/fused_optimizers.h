#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/optimizers/described_optimizer.h"

// LibTorch's optimizers, of which these have options, state and checkpoints, with steps by ATen's fused kernels:
//
//     levin::AdamW(parameters(), levin::AdamWOptions(1e-3).weight_decay(0.1))
//
// Numbers are those of LibTorch's steps, but for the rounding of the last digit. Where a kernel does not take a parameter
// (sparse or complex gradients, bfloat16 and half, memory with gaps) it is stepped by LibTorch, as each is for the first time,
// which makes its state. The last argument, `fused`, is false for LibTorch's own step of all parameters.
namespace levin {

class FusedStep;

/// One of LibTorch's optimizers with a fused step.
template <class Base, class BaseOptions>
class LEVIN_API FusedOptimizer : public Base, public RecordableOptimizer {
 public:
  explicit FusedOptimizer(std::vector<at::Tensor> parameters, BaseOptions options = {}, bool fused = true)
      : FusedOptimizer(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}
  explicit FusedOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, BaseOptions options = {},
                          bool fused = true)
      : Base(groups, std::move(options)), is_fused_(fused) {}
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override;
  bool run_steps_by(StepRunner* runner) override;

 private:
  bool is_fused_;
  std::shared_ptr<FusedStep> fused_step_ = nullptr;  ///< from the first step on
  StepRunner* runner_ = nullptr;
};

using SGDOptions = torch::optim::SGDOptions;
using AdamOptions = torch::optim::AdamOptions;
using AdamWOptions = torch::optim::AdamWOptions;
using AdagradOptions = torch::optim::AdagradOptions;
extern template class LEVIN_API FusedOptimizer<torch::optim::SGD, SGDOptions>;
extern template class LEVIN_API FusedOptimizer<torch::optim::Adam, AdamOptions>;
extern template class LEVIN_API FusedOptimizer<torch::optim::AdamW, AdamWOptions>;
extern template class LEVIN_API FusedOptimizer<torch::optim::Adagrad, AdagradOptions>;

/// Stochastic gradient descent, with momentum.
class LEVIN_API SGD : public FusedOptimizer<torch::optim::SGD, SGDOptions> {
  using FusedOptimizer::FusedOptimizer;
};

/// Adaptive moments (Kingma and Ba 2014).
class LEVIN_API Adam : public FusedOptimizer<torch::optim::Adam, AdamOptions> {
  using FusedOptimizer::FusedOptimizer;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2017).
class LEVIN_API AdamW : public FusedOptimizer<torch::optim::AdamW, AdamWOptions> {
  using FusedOptimizer::FusedOptimizer;
};

/// Adaptive gradients (Duchi et al. 2011).
class LEVIN_API Adagrad : public FusedOptimizer<torch::optim::Adagrad, AdagradOptions> {
  using FusedOptimizer::FusedOptimizer;
};

}  // namespace levin
