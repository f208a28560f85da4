#include "levin/core/optimizers/described_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {
namespace {

[[noreturn]] void refuse_archive(const torch::optim::Optimizer& optimizer) {
  throw MisuseError(format("{} cannot be saved to LibTorch's archives: save a checkpoint, with Trainer::save_checkpoint().",
                           optimizer_class_name(optimizer)));
}

void check_can_step(const torch::optim::Optimizer& optimizer, const at::Tensor& gradient, bool steps_sparse) {
  if (!gradient.is_complex() && gradient.layout() == (steps_sparse ? at::kSparse : at::kStrided)) return;
  const bool is_dense = gradient.layout() == at::kStrided;
  throw MisuseError(
      format("{} got a gradient that is {}, but takes only {}, real ones: use {}, or remove the parameter from it.",
             optimizer_class_name(optimizer),
             gradient.is_complex() ? "complex"
             : is_dense            ? "dense"
                                   : "sparse",
             steps_sparse ? "sparse" : "dense", steps_sparse ? "Adam" : "SGD or SparseAdam"));
}

}  // namespace

ParameterState::~ParameterState() = default;
GroupOptions::~GroupOptions() = default;
EvaluatedWeights::~EvaluatedWeights() = default;

at::Tensor DescribedOptimizer::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  for (torch::optim::OptimizerParamGroup& group : param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      check_can_step(*this, gradient, steps_sparse_gradients());
      step_in_group(parameter, group.options());
    }
  }
  return loss;
}

void DescribedOptimizer::fill_with_zeros(const StateFields& fields, const at::Tensor& parameter) {
  for (const StateField& field : fields) {
    if (at::Tensor* const* tensor = std::get_if<at::Tensor*>(&field.place)) **tensor = at::zeros_like(parameter);
  }
}

void DescribedOptimizer::save(torch::serialize::OutputArchive&) const { refuse_archive(*this); }
void DescribedOptimizer::load(torch::serialize::InputArchive&) { refuse_archive(*this); }

}  // namespace levin
