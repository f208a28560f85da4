#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

namespace levin {

/// What one call of a fused kernel steps: parameters of one group, device and type. The lists have an entry for each.
struct FusedBatch {
  bool in_threads = false;  ///< large enough to be divided over threads
  bool is_first = false;    ///< parameters that have no state yet
  std::vector<at::Tensor> parameters, gradients, steps;
  std::array<std::vector<at::Tensor>, 3> state;
};

/// Steps an optimizer of LibTorch with ATen's fused kernels, which go over the memory of a parameter, its gradient and its
/// state once, where LibTorch's own step goes over them in a dozen operations. A derived class knows the state of one optimizer
/// class and its kernel. Between two steps it keeps memory only, no tensor of the optimizer's.
class FusedStep {
 public:
  virtual ~FusedStep();

  /// As Optimizer::step(). `plain_step` is LibTorch's own, without a closure: it steps what the kernel does not take (sparse
  /// and complex gradients, types of 16 bits, whose numbers would be others, memory that is not in the same order).
  at::Tensor run(torch::optim::Optimizer& optimizer, const torch::optim::Optimizer::LossClosure& closure,
                 const std::function<void()>& plain_step);

 protected:
  using Options = torch::optim::OptimizerOptions;

  /// Adds a parameter, by take(). False, with nothing changed, when the kernel does not take it.
  virtual bool add(torch::optim::Optimizer& optimizer, const Options& options, at::Tensor& parameter) = 0;
  /// Calls the kernel.
  virtual void step(const Options& options, FusedBatch& batch) = 0;

  /// Whether the kernel takes a parameter, its gradient, and the tensors of its state.
  static bool fits(const at::Tensor& parameter, std::initializer_list<const at::Tensor*> state);
  /// The batch that a parameter belongs to, which has it and its gradient now.
  FusedBatch& take(const at::Tensor& parameter, bool is_first = false);
  /// A count of steps as the kernel reads it. The same tensor serves all parameters that have taken as many.
  const at::Tensor& step_tensor(std::int64_t step, const at::Device& device);

 private:
  struct StepTensor {
    std::int64_t step = 0;
    at::Tensor tensor;
    bool in_use = false;
  };
  void step_batches(const Options& options);

  std::vector<FusedBatch> batches_;  ///< those that are empty keep their memory
  std::vector<StepTensor> step_tensors_;
  std::vector<std::vector<at::Tensor>> left_;  ///< by group: parameters for LibTorch's own step
};

/// The state that an optimizer has of a parameter, or null.
template <class State>
State* state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
}

}  // namespace levin
