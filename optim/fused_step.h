#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "levin/core/optimizers/recordable_step.h"

namespace levin {

/// What one call of a fused kernel steps: parameters of one group, device and type that have taken as many steps. The lists
/// have an entry for each.
struct FusedBatch {
  const torch::optim::OptimizerOptions* options = nullptr;  ///< the group's
  bool in_threads = false;                                  ///< large enough to be divided over threads
  std::int64_t count = 0;                                   ///< of steps, this one included; 0: they are not counted
  std::vector<at::Tensor> parameters, gradients, steps;
  std::array<std::vector<at::Tensor>, 3> state;
};

/// As kernels take a learning rate: from the host, or from the device's memory.
using Rate = std::variant<double, at::Tensor>;

/// Steps an optimizer of LibTorch with ATen's fused kernels, which go over the memory of a parameter, its gradient and its
/// state once, where LibTorch's own step goes over them in a dozen operations. A derived class knows the state of one optimizer
/// class and its kernel. Between two steps it holds memory and two numbers on the device, no tensor of the optimizer's.
class FusedStep : public RecordableStep {
 public:
  using Optimizer = torch::optim::Optimizer;
  using Options = torch::optim::OptimizerOptions;

  /// `kernel`: its name, "aten::_fused_sgd_".
  explicit FusedStep(const char* kernel) : kernel_(c10::Dispatcher::singleton().findSchemaOrThrow(kernel, "")) {}

  /// The rest of Optimizer::step(), after its closure. `plain_step` is LibTorch's own: it steps what the kernel does not take
  /// (sparse and complex gradients, types of 16 bits, whose numbers would be others, memory that is not in the same order), and
  /// each parameter for the first time, which makes its state. `runner`: null for none.
  void run(Optimizer& optimizer, const std::function<void()>& plain_step, StepRunner* runner);
  /// What has been sent may be gone: a step that was recorded may not have been replayed.
  void forget_sent_numbers() { sent_.clear(); }

  void call() override;
  void send_numbers() override;
  void call_with_sent_numbers() override;
  std::optional<Fixed> fixed() const override;
  std::vector<at::Tensor> changed() const override;

 protected:
  /// Adds a parameter, by take(). False, with nothing changed, when the kernel does not take it.
  virtual bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) = 0;
  virtual void call_kernel(const FusedBatch& batch, const Rate& rate) = 0;
  /// What the kernel gets besides the rate.
  virtual std::vector<double> numbers_of(const Options& options) const = 0;

  /// Whether the kernel takes a parameter, its gradient, and the tensors of its state.
  bool fits(const at::Tensor& parameter, std::initializer_list<const at::Tensor*> state) const;
  /// The batch that a parameter belongs to, which has it and its gradient now. `count`: as a batch has it.
  FusedBatch& take(const Options& options, const at::Tensor& parameter, std::int64_t count = 0);

  /// The state that an optimizer has of a parameter, or null.
  template <class State>
  static State* state_of(Optimizer& optimizer, const at::Tensor& parameter) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    return found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
  }

 private:
  /// Of a batch, what is on its device.
  struct SentNumbers {
    at::Tensor rate, count;
    double rate_there = 0;
    std::int64_t count_there = 0;
  };

  std::span<const FusedBatch> batches() const { return {batches_.data(), used_}; }
  void step(FusedBatch& batch, const at::Tensor& count, const Rate& rate);
  void clear();

  c10::OperatorHandle kernel_;
  std::vector<FusedBatch> batches_;  ///< those of this step first; the others keep their memory
  std::size_t used_ = 0;
  std::vector<SentNumbers> sent_;              ///< by batch
  std::vector<std::vector<at::Tensor>> left_;  ///< by group: parameters for LibTorch's own step
};

}  // namespace levin
