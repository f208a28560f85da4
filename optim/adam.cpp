#include "levin/optim/optimizers.h"

#include <ATen/ops/_fused_adam.h>

#include "levin/optim/fused_adam_step.h"

namespace levin {
namespace {

constexpr auto kFusedAdam = [](const auto&... arguments) { at::_fused_adam_(arguments...); };

}  // namespace

Adam::Adam(std::vector<at::Tensor> parameters, AdamOptions options, bool fused)
    : Adam(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}

Adam::Adam(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamOptions options, bool fused)
    : torch::optim::Adam(groups, std::move(options)) {
  if (fused) fused_ = std::make_unique<FusedAdamStep<AdamOptions, torch::optim::AdamParamState, kFusedAdam>>();
}

Adam::Adam(Adam&& other) noexcept = default;
Adam::~Adam() = default;

at::Tensor Adam::step(LossClosure closure) {
  if (fused_ == nullptr) return torch::optim::Adam::step(std::move(closure));
  return fused_->run(*this, closure, [this] { torch::optim::Adam::step(nullptr); });
}

}  // namespace levin
