#include "levin/strategies/ddp.h"

#include "levin/core/accelerator.h"
#include "levin/core/error.h"
#include "levin/core/module.h"
#include "levin/strategies/distributed/module_synchronizer.h"
#include "levin/strategies/distributed/process_world.h"
#include "levin/strategies/join_ranks.h"

namespace levin {

void DdpOptions::declare(OptionList<DdpOptions>& options) {
  options.add("process_group_backend", &DdpOptions::process_group_backend,
              "What gradients travel over; auto: gloo on the CPU, nccl on GPUs");
  options.add("control_group", &DdpOptions::control_group,
              "What metrics and decisions travel over; auto: shared_memory when all ranks are on one host, else gloo");
  options.add("find_unused_parameters", &DdpOptions::find_unused_parameters,
              "Let a loss leave parameters unused; costs a walk through the graph at each step");
  options.add("gradient_as_bucket_view", &DdpOptions::gradient_as_bucket_view,
              "Let gradients share memory with the messages; then Optimizer::zero_grad() cannot be used");
  options.add("bucket_cap_mb", &DdpOptions::bucket_cap_mb, "Size of the messages in which gradients travel, in MB").min(0.001);
  options.add("broadcast_buffers", &DdpOptions::broadcast_buffers,
              "Make buffers, such as running statistics, equal to rank 0's before each training step");
  options.add("timeout", &DdpOptions::timeout, "Seconds that ranks wait for one another; null: the Trainer's timeout_seconds")
      .min(0.1);
}

DdpStrategy::DdpStrategy(Options options) : options_(checked("strategy ddp", options)) {}
DdpStrategy::~DdpStrategy() = default;

Launched DdpStrategy::join(const LaunchRequest& request) {
  if (options_.process_group_backend == GradientTransport::kNccl && request.accelerator.get()->backend_name() != "nccl") {
    throw ConfigError("strategy ddp: process_group_backend: nccl needs GPUs; use gloo, or leave it out");
  }
  JoinOptions join;
  join.control_group = options_.control_group;
  join.gradients_over_gloo = options_.process_group_backend == GradientTransport::kGloo;
  join.timeout_seconds = options_.timeout;
  Launched launched = join_ranks(request, join);
  world_ = ProcessWorld::current();
  return launched;
}

VoteChannel& DdpStrategy::vote_channel() { return world_ ? world_->vote_channel() : Strategy::vote_channel(); }

void DdpStrategy::setup_module(Module& module, bool training) {
  ranks();
  module_.reset();
  module_ = std::make_unique<ModuleSynchronizer>(
      *world_, module, training,
      GradientReducer::Options{options_.find_unused_parameters, options_.gradient_as_bucket_view, options_.bucket_cap_mb});
}

void DdpStrategy::parameters_changed(Module&, bool after_reduction) { synchronizer().parameters_changed(after_reduction); }

ModuleSynchronizer& DdpStrategy::synchronizer() const {
  if (!module_) throw MisuseError("strategy ddp: setup_module must come before training steps");
  return *module_;
}

void DdpStrategy::before_backward(const at::Tensor& loss, bool synchronize) {
  // A rank alone has nobody to reduce with, and after_backward() is not called.
  if (synchronize && world_size() > 1) synchronizer().before_backward(loss);
}

void DdpStrategy::after_backward(Module&) { synchronizer().finish_reduction(); }

void DdpStrategy::backward_without_batch(Module&) { synchronizer().backward_without_batch(); }

void DdpStrategy::synchronize_buffers(Module&) {
  if (options_.broadcast_buffers) synchronizer().synchronize_buffers();
}

void DdpStrategy::release_module() noexcept { module_.reset(); }

}  // namespace levin
