#pragma once

#include <torch/nn/module.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/gradients/ddp_options.h"

namespace c10d {
class Reducer;
}

namespace levin {

class BucketVoteChannel;
class PowerSgd;
class SharedMemoryBackend;

/// Makes gradients the mean over ranks while backward runs: LibTorch's own reducer of DistributedDataParallel, with its
/// buckets.
class GradientReducer {
 public:
  /// Its context, in addition to the user's options.
  struct Context {
    /// Parameters that the backward pass omits take part with zeros, without an error, until a reducer is made without them:
    /// for a static graph.
    bool learns_unused = false;
    std::vector<at::Tensor> left_out = {};         ///< not reduced by that reducer
    SharedMemoryBackend* shared_memory = nullptr;  ///< the process group, if it is one
    BucketVoteChannel* votes = nullptr;            ///< sent with the gradients; null: sent separately
    PowerSgd* power_sgd = nullptr;                 ///< for CommHook::kPowerSgd
    /// Called with true when this rank starts to wait for others inside of a backward pass, after its last gradient, and with
    /// false when it continues. Not called while reports_last_gradient() is false.
    std::function<void(bool)> on_wait = nullptr;
  };

  /// `module` has at least one parameter that requires a gradient. Ranks: all, with the same parameters.
  GradientReducer(const torch::nn::Module& module, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                  const DdpOptions& options, const Context& context);
  ~GradientReducer();

  /// Before a backward pass whose gradients are to be reduced; without it a backward pass stays local.
  void prepare(const at::Tensor& loss);
  /// False with find_unused_parameters, and while a static graph is learned: the last gradient is unknown.
  bool reports_last_gradient() const { return !last_pass_.empty() && !context_.learns_unused; }
  /// Called: after that backward pass, without which the reduction does not end. Parameters that are no longer trained, or no
  /// longer the module's, take part with zeros. Throws MisuseError when it left others without a gradient: the reduction has
  /// then not ended, here or on other ranks, and gradients are wrong.
  void finish(const torch::nn::Module& module);
  /// Takes part in a reduction with gradients of zero.
  void reduce_zeros();

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::string& name(std::size_t index) const { return names_[index]; }
  /// Parameters that took part in the last reduction with zeros, and had no gradient before.
  const std::vector<at::Tensor>& given_zeros() const { return given_zeros_; }

 private:
  void watch_gradients();
  void note_arrival(std::size_t index);
  /// Buckets have no room for others, and non_bucketed_parameters() did not list this one. Throws MisuseError on all ranks.
  void check_is_dense(const at::Tensor& gradient, std::size_t index) const;
  void rebuild_buckets();
  /// A backward pass that gives these parameters zero gradients, whether they require one or not.
  void add_zeros(const std::vector<at::Tensor>& parameters, bool prepares);

  DdpOptions options_;
  Context context_;
  std::vector<std::string> names_;  ///< of parameters_
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> given_zeros_;
  std::vector<unsigned char> came_frozen_;  ///< by parameter: a hook froze it between forward and backward
  std::unique_ptr<c10d::Reducer> reducer_;
  std::vector<unsigned> hooks_;           ///< by parameter
  std::int64_t pass_ = 0;                 ///< counts reductions
  std::atomic<std::size_t> arrived_ = 0;  ///< gradients of this one; those on different devices come in different threads
  std::vector<std::int64_t> last_pass_;   ///< by parameter: the last to reach it. None with find_unused_parameters
  // With find_unused_parameters every reduction ends: the first parameter is the reducer's own, the anchor, of which each has a
  // gradient. Without it a backward pass that reaches none of the parameters would not be a reduction at all, and ranks would
  // not meet in it. In a reduction: the anchor and what else needs a gradient, and the loss that gives it.
  std::vector<at::Tensor> anchored_;
  at::Tensor anchor_loss_;
};

class ProcessWorld;

/// The parameters of a module whose gradients do not fit into the buckets of a c10d::Reducer: complex ones, and the weights of
/// torch::nn::Embedding and EmbeddingBag with `sparse`.
std::vector<at::Tensor> non_bucketed_parameters(const torch::nn::Module& module);

/// Averages the gradients of parameters over ranks, also of parameters that are now frozen, whose gradients may come from
/// batches that were not reduced. Sparse ones stay sparse on the CPU, unless some rank's is dense; if no rank has a gradient,
/// there is none. Ranks: all, with the same parameters.
void reduce_non_bucketed(ProcessWorld& world, const std::vector<at::Tensor>& parameters, const ExchangeSite& site);

/// The same memory in a type that every backend supports.
at::Tensor as_real(const at::Tensor& tensor);

}  // namespace levin
