#include "levin/optim/optimizers.h"

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>

#include "levin/optim/fused_step.h"

namespace levin {
namespace {

using torch::optim::SGDParamState;

class FusedSgdStep final : public FusedStep {
  bool add(torch::optim::Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    if (static_cast<const SGDOptions&>(options).momentum() == 0) {
      if (!fits(parameter, {})) return false;
      take(parameter);
      return true;
    }
    const auto* state = state_of<SGDParamState>(optimizer, parameter);
    const bool is_first = state == nullptr;
    if (!(is_first ? fits(parameter, {}) : fits(parameter, {&state->momentum_buffer()}))) return false;
    if (is_first) {
      auto made = std::make_unique<SGDParamState>();
      made->momentum_buffer(at::zeros_like(parameter));
      state = made.get();
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(made);
    }
    take(parameter, is_first).state[0].push_back(state->momentum_buffer());
    return true;
  }
  void step(const Options& options, FusedBatch& batch) override {
    const auto& sgd = static_cast<const SGDOptions&>(options);
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.state[0], sgd.weight_decay(), sgd.momentum(), sgd.lr(),
                    sgd.dampening(), sgd.nesterov(), /*maximize=*/false, batch.is_first);
  }
};

}  // namespace

SGD::SGD(std::vector<at::Tensor> parameters, SGDOptions options, bool fused)
    : SGD(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}

SGD::SGD(const std::vector<torch::optim::OptimizerParamGroup>& groups, SGDOptions options, bool fused)
    : torch::optim::SGD(groups, std::move(options)) {
  if (fused) fused_ = std::make_unique<FusedSgdStep>();
}

SGD::SGD(SGD&& other) noexcept = default;
SGD::~SGD() = default;

at::Tensor SGD::step(LossClosure closure) {
  if (fused_ == nullptr) return torch::optim::SGD::step(std::move(closure));
  return fused_->run(*this, closure, [this] { torch::optim::SGD::step(nullptr); });
}

}  // namespace levin
