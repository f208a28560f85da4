#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/rank_group.h"

namespace levin {

/// The Trainer's request to the machine.
struct LEVIN_API LaunchRequest {
  Component<Accelerator> accelerator = "auto";
  Devices devices;
  int num_nodes = 1;
  int max_restarts = 0;
  std::optional<int> min_devices = std::nullopt;
  double connect_timeout_seconds = 300;
  double stall_report_seconds = 60;  ///< 0: never
  double timeout_seconds = 1800;

  /// The requested accelerator, as this machine has it. Throws ConfigError for an unknown one.
  std::shared_ptr<Accelerator> chosen_accelerator() const;
  /// Ranks requested on this host, one per device. Devices `auto` are one in a program that levin must not start again as a
  /// rank. Throws ConfigError for unknown or missing accelerators or devices.
  int ranks_per_host() const;
};

/// The result of a launch: the processes of the run, and the device of this one.
struct LEVIN_API Launched {
  std::shared_ptr<RankGroup> ranks;
  std::shared_ptr<Accelerator> accelerator;
  at::Device device{at::kCPU};
};

/// Called with the times at which this rank entered and left a reduction of gradients, in seconds of its host's steady clock.
using WaitObserver = std::function<void(double arrived, double left)>;

/// Synchronizes gradients, so that all ranks train one module, and gives access to the run's processes. Implementations:
/// strategies/. Ranks: every method but the getters is called on all in one order, unless stated otherwise.
class LEVIN_API Strategy {
 public:
  virtual ~Strategy();

  virtual std::string name() const = 0;
  /// The strategy that this one selects for a request and the environment; null: itself. `auto` uses it.
  virtual std::shared_ptr<Strategy> resolve(const LaunchRequest& /*request*/) { return nullptr; }
  /// Called: first, by the Trainer's constructor. From here on this process is one rank of the run. Throws as join() does.
  void launch(const LaunchRequest& request);
  /// Called: at the end of an entry point. Releases what setup_module made; the processes stay for the next entry point.
  void teardown() noexcept;

  /// The processes of the run. Throws MisuseError before launch().
  RankGroup& ranks() const;
  /// The kind of device of the ranks. Throws MisuseError before launch().
  Accelerator& accelerator() const;
  /// The device of this rank's module and batches.
  at::Device device() const { return launched_.device; }
  /// The name, and the transports of the ranks where there is a choice.
  std::string description() const;

  // Forwarded to RankGroup. Returned tensors have no gradients.
  int rank() const { return ranks().rank(); }
  int world_size() const { return ranks().world_size(); }
  int local_rank() const { return ranks().local_rank(); }
  int node_rank() const { return ranks().node_rank(); }
  bool is_global_zero() const { return rank() == 0; }
  ControlGroup& control_group() const { return ranks().control_group(); }
  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where = SourceLocation::current()) const {
    return ranks().all_gather(tensor, where);
  }
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op = "mean",
                        SourceLocation where = SourceLocation::current()) const {
    return ranks().all_reduce(tensor, op, where);
  }
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank = 0, SourceLocation where = SourceLocation::current()) const {
    return ranks().broadcast(tensor, source_rank, where);
  }
  void barrier(const std::string& what = "", SourceLocation where = SourceLocation::current()) const {
    ranks().barrier(what, where);
  }
  void post_whereabouts(const Whereabouts& whereabouts) const { ranks().post_whereabouts(whereabouts); }
  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) const noexcept;
  std::optional<std::string> failure_elsewhere() const;

  /// Votes are published before a reduction of gradients and read after it. Default: the processes' own channel, where reading
  /// is a barrier. A strategy whose reductions end on no rank before all have begun can send votes with them.
  virtual VoteChannel& vote_channel() { return ranks().vote_channel(); }

  /// Called: before setup_module(). `observer`, if any, is called for reductions of gradients in later backward passes: equally
  /// often on every rank, in one order. Default: never. Ranks: all, or none.
  virtual void observe_waits(const WaitObserver& /*observer*/) {}
  /// Called: when the module is on its device. Makes parameters and buffers equal on all ranks (rank 0's) and, for training,
  /// prepares the reduction of gradients. A second call replaces the first.
  virtual void setup_module(Module& module, bool training) = 0;
  /// Called: in training, when parameters were frozen, unfrozen, added or replaced on some rank. Later reductions use the
  /// present parameters; new ones get rank 0's values. `after_reduction`: a reduction without them has just ended, and the
  /// missing gradients are averaged here; false, at an epoch's start: gradients stay. Default: setup_module() again. Throws
  /// DesyncError on every rank when changes differ between ranks.
  virtual void parameters_changed(Module& module, bool /*after_reduction*/) { setup_module(module, /*training=*/true); }
  /// Called: before a backward pass. `synchronize` false: gradients stay local (accumulation).
  virtual void before_backward(const at::Tensor& /*loss*/, bool /*synchronize*/) {}
  /// Called: after a backward pass that synchronizes, on several ranks. Gradients are then the mean over ranks.
  virtual void after_backward(Module& /*module*/) {}
  /// Takes part in the reduction of a step without a batch, with zero gradients. Default: parameters without a gradient get one
  /// of zeros, and after_backward() follows.
  virtual void backward_without_batch(Module& module);
  /// Called: instead of after_backward() where the backward pass itself communicates (Module::all_gather with gradients);
  /// before_backward() was then called with `synchronize` false. Averages gradients over ranks; a parameter without one takes
  /// part with zeros. Default: backward_without_batch().
  virtual void reduce_gradients(Module& module) { backward_without_batch(module); }
  /// From here to the end of the entry point, BatchNorm layers compute the statistics of a training batch over all ranks. A
  /// later call replaces an earlier one. Default: a ConfigError on several ranks; a strategy that uses join_ranks() forwards to
  /// levin::synchronize_batch_norms(). Throws ConfigError for unsupported layers.
  virtual void synchronize_batch_norms(const torch::nn::Module& module);
  /// Buffers (running statistics) of all ranks become rank 0's, before a forward pass in training.
  virtual void synchronize_buffers(Module& /*module*/) {}
  /// Called: in training, before an optimizer steps, with gradients complete and clipped, and after. An optimizer skips
  /// parameters without a gradient: a strategy that divides its state over ranks removes the gradients of other ranks'
  /// parameters before, and sends the new weights to all after. A step can begin again when optimizer_step() calls its closure
  /// twice.
  virtual void before_optimizer_step(torch::optim::Optimizer& /*optimizer*/) {}
  virtual void after_optimizer_step(torch::optim::Optimizer& /*optimizer*/) {}

  /// The optimizers' state is divided over ranks.
  virtual bool divides_optimizers() const { return false; }
  /// Put the state of the module and of optimizer `index` into a checkpoint. Default: their own state, whole on every rank. A
  /// strategy that divides it gathers the parts here: rank 0 writes the file. `all_ranks` false: after an error rank 0 saves
  /// alone, and nothing may communicate.
  virtual void save_module(const Module& module, Checkpoint& checkpoint, bool all_ranks);
  virtual void save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint,
                              bool all_ranks);
  /// Called: when a signal ends all ranks, after which rank 0 saves alone. Gathers the parts of the optimizer's state that
  /// save_optimizer() will need.
  virtual void keep_optimizer(const torch::optim::Optimizer& /*optimizer*/, std::size_t /*index*/) {}
  /// Throw ConfigError when the checkpoint does not fit.
  virtual void load_module(Module& module, const Checkpoint& checkpoint);
  virtual void load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint);

 protected:
  /// Called: by launch(). Starts the other ranks unless another launcher did (the calling process then becomes their launcher
  /// and never returns), and joins them: `return join_ranks(request);` (strategies/world/join_ranks.h). Throws ConfigError for
  /// wrong devices or environment variables.
  virtual Launched join(const LaunchRequest& request) = 0;
  /// Called: by teardown().
  virtual void release_module() noexcept {}

 private:
  Launched launched_;
};

}  // namespace levin
