#include "levin/optim/fused_step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/util/ParallelGuard.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace levin {

namespace {

at::Tensor number_on(const at::Device& device, double number) {
  return at::full({}, number, at::TensorOptions(device).dtype(at::kFloat));
}

at::Device device_of(const FusedBatch& batch) { return batch.parameters.front().device(); }

/// A step that has been recorded reads its rate from the device's memory, where kernels want it in 32 bits.
bool can_read_rate_there(const FusedBatch& batch) {
  return !device_of(batch).is_cpu() && batch.parameters.front().scalar_type() == at::kFloat;
}

/// Recorded or not, steps there have the same results.
double rate_of(const FusedBatch& batch) {
  const double rate = batch.options->get_lr();
  return can_read_rate_there(batch) ? static_cast<float>(rate) : rate;
}

/// Calls `see` with the lists of tensors that a step changes.
template <class See>
void each_changed_list(const FusedBatch& batch, const See& see) {
  see(batch.parameters);
  for (const std::vector<at::Tensor>& state : batch.state) see(state);
}

}  // namespace

void FusedStep::run(Optimizer& optimizer, const std::function<void()>& plain_step, StepRunner* runner) {
  clear();
  const auto cleared = c10::make_scope_exit([&] { clear(); });
  bool any_left = false;
  left_.resize(optimizer.param_groups().size());
  for (std::size_t index = 0; index < left_.size(); ++index) {
    torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[index];
    for (at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || add(optimizer, group.options(), parameter)) continue;
      left_[index].push_back(parameter);
      any_left = true;
    }
  }
  if (used_ > 0) {
    runner != nullptr ? runner->run(*this) : call();
    for (const FusedBatch& batch : batches()) {
      for (const at::Tensor& parameter : batch.parameters) parameter.unsafeGetTensorImpl()->bump_version();
    }
  }
  if (!any_left) return;
  const auto swap_all = [&] {
    for (std::size_t group = 0; group < left_.size(); ++group) optimizer.param_groups()[group].params().swap(left_[group]);
  };
  swap_all();
  const auto swap_back = c10::make_scope_exit(swap_all);
  plain_step();
}

void FusedStep::call() {
  std::vector<std::pair<std::int64_t, at::Tensor>> counts;
  const auto count_of = [&](const FusedBatch& batch) {
    if (batch.count == 0) return at::Tensor();
    for (const auto& [count, tensor] : counts) {
      if (count == batch.count && tensor.device() == device_of(batch)) return tensor;
    }
    return counts.emplace_back(batch.count, number_on(device_of(batch), static_cast<double>(batch.count))).second;
  };
  for (std::size_t index = 0; index < used_; ++index)
    step(batches_[index], count_of(batches_[index]), rate_of(batches_[index]));
}

void FusedStep::send_numbers() {
  sent_.resize(used_);
  for (std::size_t index = 0; index < used_; ++index) {
    const FusedBatch& batch = batches_[index];
    SentNumbers& sent = sent_[index];
    if (!sent.rate.defined()) {
      sent = {number_on(device_of(batch), rate_of(batch)), number_on(device_of(batch), 0), rate_of(batch), 0};
    }
    if (sent.rate_there != rate_of(batch)) sent.rate.fill_(sent.rate_there = rate_of(batch));
    if (batch.count == 0) continue;
    // The step counts there.
    if (sent.count_there != batch.count - 1) sent.count.fill_(static_cast<double>(batch.count - 1));
    sent.count_there = batch.count;
  }
}

void FusedStep::call_with_sent_numbers() {
  for (std::size_t index = 0; index < used_; ++index) {
    if (batches_[index].count != 0) sent_[index].count.add_(1);
    step(batches_[index], sent_[index].count, sent_[index].rate);
  }
}

std::optional<RecordableStep::Fixed> FusedStep::fixed() const {
  Fixed fixed;
  const auto add_places = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) fixed.places.push_back(tensor.const_data_ptr());
  };
  for (const FusedBatch& batch : batches()) {
    if (!can_read_rate_there(batch)) return std::nullopt;
    fixed.places.push_back(batch.options);
    for (const at::Tensor& parameter : batch.parameters) fixed.places.push_back(parameter.unsafeGetTensorImpl());
    each_changed_list(batch, add_places);
    add_places(batch.gradients);
    std::ranges::copy(numbers_of(*batch.options), std::back_inserter(fixed.numbers));
  }
  return fixed;
}

std::vector<at::Tensor> FusedStep::changed() const {
  std::vector<at::Tensor> all;
  for (const FusedBatch& batch : batches()) {
    each_changed_list(batch,
                      [&](const std::vector<at::Tensor>& tensors) { std::ranges::copy(tensors, std::back_inserter(all)); });
  }
  return all;
}

bool FusedStep::fits(const at::Tensor& parameter, std::initializer_list<const at::Tensor*> state) const {
  const at::ScalarType type = parameter.scalar_type();
  if (type != at::kFloat && type != at::kDouble) return false;
  if (parameter.layout() != at::kStrided) return false;
  if (!parameter.is_contiguous() && !parameter.is_non_overlapping_and_dense()) return false;
  // A vendor's device may have none, or one that goes through the CPU.
  if (!parameter.is_cpu() && !kernel_.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(parameter.key_set()))) return false;
  const auto fits_parameter = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == type &&
           tensor.device() == parameter.device() && tensor.sizes() == parameter.sizes() &&
           // The kernels go over memory as it lies.
           ((tensor.is_contiguous() && parameter.is_contiguous()) || tensor.strides() == parameter.strides());
  };
  return fits_parameter(parameter.grad()) &&
         std::all_of(state.begin(), state.end(), [&](const at::Tensor* tensor) { return fits_parameter(*tensor); });
}

FusedBatch& FusedStep::take(const Options& options, const at::Tensor& parameter, std::int64_t count) {
  const bool in_threads = parameter.numel() > at::internal::GRAIN_SIZE && at::get_num_threads() > 1;
  const auto is_alike = [&](const FusedBatch& batch) {
    const at::Tensor& one = batch.parameters.front();
    return batch.options == &options && batch.in_threads == in_threads && batch.count == count &&
           one.device() == parameter.device() && one.scalar_type() == parameter.scalar_type();
  };
  const std::span used = {batches_.data(), used_};
  const auto found = std::ranges::find_if(used, is_alike);
  if (found == used.end()) {
    if (used_ == batches_.size()) batches_.emplace_back();
    FusedBatch& batch = batches_[used_++];
    batch.options = &options;
    batch.in_threads = in_threads;
    batch.count = count;
  }
  FusedBatch& batch = found == used.end() ? batches_[used_ - 1] : *found;
  batch.parameters.push_back(parameter);
  batch.gradients.push_back(parameter.grad());
  return batch;
}

void FusedStep::step(FusedBatch& batch, const at::Tensor& count, const Rate& rate) {
  if (batch.count != 0) batch.steps.assign(batch.parameters.size(), count);
  // Without it the kernels open a parallel region for each tensor, however small.
  std::optional<c10::ParallelGuard> one_thread;
  if (!batch.in_threads) one_thread.emplace(true);
  // Nothing here is recorded for a backward pass; what autograd would add is that weights have changed.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  call_kernel(batch, rate);
}

void FusedStep::clear() {
  for (; used_ > 0; --used_) {
    FusedBatch& batch = batches_[used_ - 1];
    batch.parameters.clear();
    batch.gradients.clear();
    batch.steps.clear();
    for (std::vector<at::Tensor>& state : batch.state) state.clear();
  }
  for (std::vector<at::Tensor>& left : left_) left.clear();
}

}  // namespace levin
