#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "levin/core/strategy.h"
#include "levin/strategies/gradients/gradient_reducer.h"
#include "levin/strategies/gradients/power_sgd.h"
#include "levin/strategies/gradients/single_device.h"

namespace levin {

class ModuleSynchronizer;
class ProcessWorld;

/// Data parallel training: every rank holds the whole module, works on its own batches, and gradients become their mean over
/// ranks while backward runs. The name in YAML is "ddp".
class DdpStrategy : public Strategy {
 public:
  using Options = DdpOptions;
  explicit DdpStrategy(Options options = {});
  ~DdpStrategy() override;

  std::string name() const override { return "ddp"; }
  /// Votes travel with the gradients, or in shared memory: reading them after a reduction needs no exchange.
  VoteChannel& vote_channel() override;

  /// Over shared memory the observer is called for each bucket, else for each backward pass, in which a rank arrives with its
  /// last gradient.
  void observe_waits(const WaitObserver& observer) override { wait_observer_ = observer; }
  /// Throws a DesyncError on every rank that names the first difference when the ranks' modules differ.
  void setup_module(Module& module, bool training) override;
  void synchronize_batch_norms(const torch::nn::Module& module) override;
  /// Throws DesyncError as setup_module() does.
  void parameters_changed(Module& module, bool after_reduction) override;
  void before_backward(const at::Tensor& loss, bool synchronize) override;
  /// Throws MisuseError, only on this rank, when the loss did not use some parameters, so that the reduction has not ended.
  void after_backward(Module& module) override;
  void backward_without_batch(Module& module) override;
  void reduce_gradients(Module& module) override;
  void synchronize_buffers(Module& module) override;
  void after_optimizer_step(torch::optim::Optimizer& optimizer) override;
  /// The first optimizer's state includes that of PowerSGD.
  void save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint,
                      bool all_ranks) override;
  void keep_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index) override;
  void load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) override;

 protected:
  Launched join(const LaunchRequest& request) override;
  void release_module() noexcept override;

 private:
  /// Called: when a backward pass is reduced.
  void end_reduction(const Module& module);
  ModuleSynchronizer& synchronizer() const;
  std::map<std::string, at::Tensor> power_sgd_state(bool all_ranks) const;

  Options options_;
  std::shared_ptr<ProcessWorld> world_;
  WaitObserver wait_observer_;
  std::optional<PowerSgd> power_sgd_;
  std::map<std::string, at::Tensor> state_at_end_;  ///< state of power_sgd_, of all ranks, when they end for a signal
  std::unique_ptr<ModuleSynchronizer> module_;      ///< set between setup_module and teardown
};

/// Chooses for a run: "ddp" when several devices or hosts are requested or a launcher started several ranks; else itself, a
/// single device. The name in YAML is "auto".
class AutoStrategy final : public SingleDeviceStrategy {
 public:
  /// Throws ConfigError as detect_cluster_environment and LaunchRequest::ranks_per_host do.
  std::shared_ptr<Strategy> resolve(const LaunchRequest& request) override;
};

}  // namespace levin
