#include "levin/optim/optimizers.h"

#include <ATen/ops/_fused_adagrad.h>

#include "levin/optim/fused_step.h"

namespace levin {
namespace {

class FusedAdagradStep final : public FusedStep {
  bool add(torch::optim::Optimizer& optimizer, const Options&, at::Tensor& parameter) override {
    auto* state = state_of<torch::optim::AdagradParamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->sum()})) return false;
    state->step(state->step() + 1);
    FusedBatch& batch = take(parameter);
    batch.state[0].push_back(state->sum());
    batch.steps.push_back(step_tensor(state->step(), parameter.device()));
    return true;
  }
  void step(const Options& options, FusedBatch& batch) override {
    const auto& adagrad = static_cast<const AdagradOptions&>(options);
    at::_fused_adagrad_(batch.parameters, batch.gradients, batch.state[0], batch.steps, adagrad.lr(), adagrad.lr_decay(),
                        adagrad.weight_decay(), adagrad.eps(), /*maximize=*/false);
  }
};

}  // namespace

Adagrad::Adagrad(std::vector<at::Tensor> parameters, AdagradOptions options, bool fused)
    : Adagrad(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}

Adagrad::Adagrad(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdagradOptions options, bool fused)
    : torch::optim::Adagrad(groups, std::move(options)) {
  if (fused) fused_ = std::make_unique<FusedAdagradStep>();
}

Adagrad::Adagrad(Adagrad&& other) noexcept = default;
Adagrad::~Adagrad() = default;

at::Tensor Adagrad::step(LossClosure closure) {
  if (fused_ == nullptr) return torch::optim::Adagrad::step(std::move(closure));
  return fused_->run(*this, closure, [this] { torch::optim::Adagrad::step(nullptr); });
}

}  // namespace levin
