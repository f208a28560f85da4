#include "levin/strategies/gradients/ddp.h"

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/strategies/gradients/module_synchronizer.h"
#include "levin/strategies/gradients/sync_batch_norm.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

/// What tensors of PowerSGD's state are called in a checkpoint.
const std::string kPowerSgd = "optimizer_states.power_sgd.";

/// Lightning's short names of ddp with one option set.
template <bool kFindsUnused>
class DdpVariant final : public SingleDeviceStrategy {
 public:
  std::shared_ptr<Strategy> resolve(const LaunchRequest&) override {
    return std::make_shared<DdpStrategy>(DdpOptions{.find_unused_parameters = kFindsUnused});
  }
};

LEVIN_REGISTER_(Strategy, AutoStrategy, "auto", "ddp for several devices, hosts or ranks, else single_device");
LEVIN_REGISTER_(Strategy, DdpStrategy, "ddp", "One process per device, each with its own batches; gradients are averaged");
LEVIN_REGISTER_(Strategy, DdpVariant<true>, "ddp_find_unused_parameters_true", "ddp with find_unused_parameters: true");
LEVIN_REGISTER_(Strategy, DdpVariant<false>, "ddp_find_unused_parameters_false", "ddp with find_unused_parameters: false");

}  // namespace

DdpStrategy::DdpStrategy(Options options) : options_(checked("strategy ddp", options)) {}
DdpStrategy::~DdpStrategy() = default;

Launched DdpStrategy::join(const LaunchRequest& request) {
  Launched launched = join_ranks(request, {.control_group = options_.control_group,
                                           .gradients = options_.process_group_backend,
                                           .timeout_seconds = options_.timeout});
  world_ = ProcessWorld::current();
  return launched;
}

VoteChannel& DdpStrategy::vote_channel() { return world_ ? world_->gradient_votes() : Strategy::vote_channel(); }

void DdpStrategy::setup_module(Module& module, bool training) {
  ranks();
  module_.reset();
  state_at_end_.clear();
  if (options_.comm_hook == CommHook::kPowerSgd) {
    power_sgd_.emplace(options_);
    power_sgd_->name_parameters(module);
  }
  module_ = std::make_unique<ModuleSynchronizer>(*world_, module, training, options_, power_sgd_ ? &*power_sgd_ : nullptr);
  module_->observe_waits(wait_observer_);
}

void DdpStrategy::parameters_changed(Module& module, bool after_reduction) {
  synchronizer().parameters_changed(after_reduction);
  if (power_sgd_) power_sgd_->name_parameters(module);
}

ModuleSynchronizer& DdpStrategy::synchronizer() const {
  if (!module_) throw MisuseError("strategy ddp: setup_module must come before training steps");
  return *module_;
}

void DdpStrategy::before_backward(const at::Tensor& loss, bool synchronize) {
  // A single rank does not reduce, and after_backward() is not called.
  if (synchronize && world_size() > 1) synchronizer().before_backward(loss);
}

void DdpStrategy::after_backward(Module& module) {
  synchronizer().finish_reduction();
  end_reduction(module);
}

void DdpStrategy::reduce_gradients(Module& module) {
  synchronizer().reduce_after_backward();
  end_reduction(module);
}

void DdpStrategy::end_reduction(const Module& module) {
  // Under manual optimization there is no checkpoint between a backward pass and the batch's end, and the user makes the steps.
  if (power_sgd_ && !module.automatic_optimization()) power_sgd_->end_step();
}

void DdpStrategy::after_optimizer_step(torch::optim::Optimizer&) {
  if (power_sgd_) power_sgd_->end_step();
}

void DdpStrategy::backward_without_batch(Module&) { synchronizer().backward_without_batch(); }

void DdpStrategy::synchronize_buffers(Module&) {
  if (options_.broadcast_buffers) synchronizer().synchronize_buffers();
}

std::map<std::string, at::Tensor> DdpStrategy::power_sgd_state(bool all_ranks) const {
  const auto gather = [&](const at::Tensor& tensor) { return all_ranks ? all_gather(tensor) : tensor.unsqueeze(0); };
  return power_sgd_->state(gather);
}

void DdpStrategy::save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint,
                                 bool all_ranks) {
  Strategy::save_optimizer(optimizer, index, checkpoint, all_ranks);
  if (!power_sgd_ || index != 0 || world_size() == 1) return;
  for (const auto& [name, tensor] : all_ranks || state_at_end_.empty() ? power_sgd_state(all_ranks) : state_at_end_) {
    checkpoint.tensors[kPowerSgd + name] = tensor;
  }
}

void DdpStrategy::keep_optimizer(const torch::optim::Optimizer&, std::size_t index) {
  if (power_sgd_ && index == 0 && world_size() > 1) state_at_end_ = power_sgd_state(/*all_ranks=*/true);
}

void DdpStrategy::load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) {
  Strategy::load_optimizer(optimizer, index, checkpoint);
  if (!power_sgd_ || index != 0) return;
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(kPowerSgd)) state[name.substr(kPowerSgd.size())] = tensor;
  }
  power_sgd_->load(state, rank(), world_size());
}

void DdpStrategy::synchronize_batch_norms(const torch::nn::Module& module) { levin::synchronize_batch_norms(module); }

void DdpStrategy::release_module() noexcept { module_.reset(); }

std::shared_ptr<Strategy> AutoStrategy::resolve(const LaunchRequest& request) {
  const ClusterEnvironment environment = detect_cluster_environment();
  // A rank that is to be started again after a failure needs a launcher, as several do. One that was started asks no more for
  // the devices of all: some may be gone.
  const bool several = environment.kind == ClusterKind::kLevin || environment.world_size > 1 || request.max_restarts > 0 ||
                       request.num_nodes > 1 || request.ranks_per_host() > 1;
  return several ? std::make_shared<DdpStrategy>() : nullptr;
}

}  // namespace levin
