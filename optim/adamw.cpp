#include "levin/optim/optimizers.h"

#include <ATen/ops/_fused_adamw.h>

#include "levin/optim/fused_adam_step.h"

namespace levin {
namespace {

constexpr auto kFusedAdamW = [](const auto&... arguments) { at::_fused_adamw_(arguments...); };

}  // namespace

AdamW::AdamW(std::vector<at::Tensor> parameters, AdamWOptions options, bool fused)
    : AdamW(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}

AdamW::AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamWOptions options, bool fused)
    : torch::optim::AdamW(groups, std::move(options)) {
  if (fused) fused_ = std::make_unique<FusedAdamStep<AdamWOptions, torch::optim::AdamWParamState, kFusedAdamW>>();
}

AdamW::AdamW(AdamW&& other) noexcept = default;
AdamW::~AdamW() = default;

at::Tensor AdamW::step(LossClosure closure) {
  if (fused_ == nullptr) return torch::optim::AdamW::step(std::move(closure));
  return fused_->run(*this, closure, [this] { torch::optim::AdamW::step(nullptr); });
}

}  // namespace levin
