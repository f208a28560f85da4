#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/strategies/gradients/ddp.h"

namespace levin {

/// ddp, with the state of optimizers divided over ranks (ZeRO-1, Rajbhandari et al. 2020): each rank steps its share of the
/// parameters, and stores only their state; then all ranks get the new weights. Shares are whole parameters, as in PyTorch's
/// ZeroRedundancyOptimizer, so that any optimizer that steps each parameter by itself gives the same result, and a checkpoint
/// is that of one process. The name in YAML is "ddp_sharded".
class ShardedDdpStrategy final : public DdpStrategy {
 public:
  explicit ShardedDdpStrategy(Options options = {}) : DdpStrategy(options) {}

  std::string name() const override { return "ddp_sharded"; }
  bool divides_optimizers() const override { return world_size() > 1; }
  void setup_module(Module& module, bool training) override;
  /// Throws ConfigError for an optimizer that does not step each parameter by itself (see steps_parameters_alone()), and
  /// DesyncError on every rank when they step different parameters.
  void before_optimizer_step(torch::optim::Optimizer& optimizer) override;
  void after_optimizer_step(torch::optim::Optimizer& optimizer) override;
  /// Throws MisuseError when rank 0 must save alone but other ranks have a part.
  void save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint,
                      bool all_ranks) override;
  void keep_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index) override;
  void load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) override;

 protected:
  void release_module() noexcept override;

 private:
  /// Shares belong to one entry point: the next may have another module and optimizers at the same addresses.
  void forget_shares() noexcept;
  /// A parameter with a gradient, while an optimizer steps.
  struct Stepped {
    at::Tensor parameter;
    at::Tensor gradient;
    int owner = 0;
  };
  /// The rank that has the state of each of these: the one with the least so far, the largest parameter first. Ranks: all get
  /// the same.
  void divide(const std::vector<at::Tensor>& parameters);
  int owner_of(const at::Tensor& parameter) const { return owners_.at(parameter.unsafeGetTensorImpl()).rank; }
  bool is_own(const at::Tensor& parameter) const { return owner_of(parameter) == rank(); }
  void check_same_step(const std::vector<at::Tensor>& parameters) const;
  /// Sends the new weights of each rank's share to all.
  void gather_weights() const;
  void report_memory(const torch::optim::Optimizer& optimizer);
  /// This rank's state and, on rank 0, that of the others. Ranks: all.
  Checkpoint gathered(const torch::optim::Optimizer& optimizer, std::size_t index);

  struct Owner {
    at::Tensor parameter;  ///< owned, so that no other gets its address
    int rank = 0;
  };
  std::map<const at::TensorImpl*, Owner> owners_;
  std::vector<std::int64_t> loads_;                                 ///< by rank: elements of its share
  std::vector<Stepped> stepped_;                                    ///< between before_optimizer_step and after_optimizer_step
  std::map<const torch::optim::Optimizer*, std::size_t> reported_;  ///< number of states that was reported
  std::map<std::size_t, Checkpoint> states_at_end_;                 ///< by optimizer, of all ranks, when they end for a signal
};

}  // namespace levin
