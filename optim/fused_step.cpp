#include "levin/optim/fused_step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace levin {
namespace {

using torch::optim::Optimizer;

/// Gives an optimizer's groups other parameters, and back what they had.
class OtherParameters {
 public:
  OtherParameters(Optimizer& optimizer, std::vector<std::vector<at::Tensor>>& others) : optimizer_(optimizer), others_(others) {
    swap_all();
  }
  ~OtherParameters() { swap_all(); }
  OtherParameters(const OtherParameters&) = delete;
  OtherParameters& operator=(const OtherParameters&) = delete;

 private:
  void swap_all() {
    for (std::size_t group = 0; group < others_.size(); ++group) optimizer_.param_groups()[group].params().swap(others_[group]);
  }
  Optimizer& optimizer_;
  std::vector<std::vector<at::Tensor>>& others_;
};

/// The kernels go over memory as it lies.
bool is_in_same_order(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && ((one.is_contiguous() && other.is_contiguous()) || one.strides() == other.strides());
}

bool is_large(const at::Tensor& parameter) { return parameter.numel() > at::internal::GRAIN_SIZE && at::get_num_threads() > 1; }

}  // namespace

FusedStep::~FusedStep() = default;

at::Tensor FusedStep::run(Optimizer& optimizer, const Optimizer::LossClosure& closure,
                          const std::function<void()>& plain_step) {
  const at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  for (StepTensor& kept : step_tensors_) kept.in_use = false;
  bool any_left = false;
  left_.resize(optimizer.param_groups().size());
  for (std::size_t index = 0; index < left_.size(); ++index) {
    torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[index];
    left_[index].clear();
    for (at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || add(optimizer, group.options(), parameter)) continue;
      left_[index].push_back(parameter);
      any_left = true;
    }
    step_batches(group.options());
  }
  if (any_left) {
    const OtherParameters only_left(optimizer, left_);
    plain_step();
  }
  for (std::vector<at::Tensor>& left : left_) left.clear();
  return loss;
}

bool FusedStep::fits(const at::Tensor& parameter, std::initializer_list<const at::Tensor*> state) {
  const at::ScalarType type = parameter.scalar_type();
  if (type != at::kFloat && type != at::kDouble) return false;
  if (parameter.layout() != at::kStrided || !(parameter.is_cpu() || parameter.is_cuda())) return false;
  if (!parameter.is_contiguous() && !parameter.is_non_overlapping_and_dense()) return false;
  const auto fits_parameter = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == type &&
           tensor.device() == parameter.device() && is_in_same_order(tensor, parameter);
  };
  return fits_parameter(parameter.grad()) &&
         std::all_of(state.begin(), state.end(), [&](const at::Tensor* tensor) { return fits_parameter(*tensor); });
}

FusedBatch& FusedStep::take(const at::Tensor& parameter, bool is_first) {
  const bool in_threads = is_large(parameter);
  FusedBatch* batch = nullptr;
  for (FusedBatch& candidate : batches_) {
    if (candidate.parameters.empty()) {
      if (batch == nullptr) batch = &candidate;
      continue;
    }
    const at::Tensor& alike = candidate.parameters.front();
    if (candidate.in_threads == in_threads && candidate.is_first == is_first && alike.device() == parameter.device() &&
        alike.scalar_type() == parameter.scalar_type()) {
      batch = &candidate;
      break;
    }
  }
  if (batch == nullptr) batch = &batches_.emplace_back();
  batch->in_threads = in_threads;
  batch->is_first = is_first;
  batch->parameters.push_back(parameter);
  batch->gradients.push_back(parameter.grad());
  return *batch;
}

const at::Tensor& FusedStep::step_tensor(std::int64_t step, const at::Device& device) {
  StepTensor* unused = nullptr;
  for (StepTensor& kept : step_tensors_) {
    if (kept.tensor.device() != device) continue;
    if (kept.in_use && kept.step == step) return kept.tensor;
    if (!kept.in_use && unused == nullptr) unused = &kept;
  }
  if (unused == nullptr) {
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    step_tensors_.push_back({.step = step, .tensor = at::full({}, static_cast<double>(step), options)});
    unused = &step_tensors_.back();
  } else if (device.is_cpu()) {
    *unused->tensor.mutable_data_ptr<float>() = static_cast<float>(step);
  } else {
    unused->tensor.fill_(static_cast<double>(step));
  }
  unused->step = step;
  unused->in_use = true;
  return unused->tensor;
}

void FusedStep::step_batches(const Options& options) {
  for (FusedBatch& batch : batches_) {
    if (batch.parameters.empty()) continue;
    {
      // Without it the kernels open a parallel region for each tensor, however small.
      std::optional<c10::ParallelGuard> one_thread;
      if (!batch.in_threads) one_thread.emplace(true);
      // Nothing here is recorded for a backward pass; what autograd would add is that weights have changed.
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      step(options, batch);
    }
    for (const at::Tensor& parameter : batch.parameters) parameter.unsafeGetTensorImpl()->bump_version();
    batch.parameters.clear();
    batch.gradients.clear();
    batch.steps.clear();
    for (std::vector<at::Tensor>& state : batch.state) state.clear();
  }
}

}  // namespace levin
