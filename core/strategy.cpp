#include "levin/core/strategy.h"

#include <ATen/ops/zeros_like.h>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/module.h"
#include "levin/core/run/run_setup.h"

namespace levin {

std::shared_ptr<Accelerator> LaunchRequest::chosen_accelerator() const {
  const std::shared_ptr<Accelerator> asked_for = accelerator.get();
  const std::shared_ptr<Accelerator> resolved = asked_for->resolve();
  return resolved ? resolved : asked_for;
}

int LaunchRequest::ranks_per_host() const {
  const auto found = static_cast<int>(chosen_accelerator()->devices_of_ranks(devices).size());
  const bool may_start_others = OwnProcess::is_one() || LaunchPermit::current() != nullptr;
  return devices.is_auto() && !may_start_others ? 1 : found;
}

Strategy::~Strategy() = default;
void Strategy::launch(const LaunchRequest& request) {
  launched_ = join(request);
  set_current_device({launched_.accelerator, launched_.device});
}

void Strategy::synchronize_batch_norms(const torch::nn::Module&) {
  if (world_size() == 1) return;
  throw ConfigError("sync_batchnorm: the strategy " + name() +
                    " does not synchronize BatchNorm layers. Leave it out, or let Strategy::synchronize_batch_norms() of that "
                    "class call levin::synchronize_batch_norms().");
}

void Strategy::teardown() noexcept {
  release_module();
  if (launched_.ranks) launched_.ranks->end_entry_point();
}

RankGroup& Strategy::ranks() const {
  if (!launched_.ranks) throw MisuseError("strategy " + name() + ": used before launch(), which the Trainer calls");
  return *launched_.ranks;
}

Accelerator& Strategy::accelerator() const {
  ranks();
  return *launched_.accelerator;
}

std::string Strategy::description() const {
  const std::string transports = ranks().description();
  return transports.empty() ? name() : name() + ", " + transports;
}

void Strategy::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) const noexcept {
  if (launched_.ranks) launched_.ranks->report_failure(whereabouts, error);
}

std::optional<std::string> Strategy::failure_elsewhere() const {
  return launched_.ranks ? launched_.ranks->failure_elsewhere() : std::nullopt;
}

void Strategy::backward_without_batch(Module& module) {
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() && !parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
  }
  after_backward(module);
}

void Strategy::save_module(const Module& module, Checkpoint& checkpoint, bool) { levin::save_module(module, checkpoint); }
void Strategy::load_module(Module& module, const Checkpoint& checkpoint) { levin::load_module(module, checkpoint); }
void Strategy::save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint, bool) {
  levin::save_optimizer(optimizer, index, checkpoint);
}
void Strategy::load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) {
  levin::load_optimizer(optimizer, index, checkpoint);
}

}  // namespace levin
