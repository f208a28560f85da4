#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <iosfwd>

#include "levin/core/base/fwd.h"

namespace levin {

/// Batch normalization of inputs of any number of dimensions, as torch::nn::BatchNorm1d to 3d, with the same options and the
/// same names in checkpoints: but in training mean and variance are those of the batches of all ranks together, in the gradient
/// too. Ranks may have batches of different sizes, also of no samples. Where there is one rank, and in evaluation, it is that
/// layer. Values travel over the ranks' control group, on the CPU: two exchanges a step for each layer.
/// Ranks: all call forward() in training, in the same order of layers; otherwise all end with a DesyncError that names the
/// layer.
class LEVIN_API SyncBatchNormImpl
    : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {  // no dimension counts
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options)
      : torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions>(options) {}

  /// Throws MisuseError when all ranks together have less than two values a channel.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};
/// Holds a SyncBatchNormImpl, as LibTorch's layers are held.
class SyncBatchNorm : public torch::nn::ModuleHolder<SyncBatchNormImpl> {
 public:
  using torch::nn::ModuleHolder<SyncBatchNormImpl>::ModuleHolder;
  using Impl = SyncBatchNormImpl;
};

/// Makes the BatchNorm layers of a module, wherever they are below it, work as SyncBatchNorm: the layers themselves, which
/// the module goes on to use under their own types, until the Trainer's entry point ends. `sync_batchnorm: true` of the Trainer
/// calls it in each fit. Ranks: all. Throws ConfigError for a layer with neither affine nor track_running_stats, which cannot
/// be told from others. A layer refuses a batch with one value a channel by itself, which SyncBatchNorm takes.
LEVIN_API void synchronize_batch_norms(const torch::nn::Module& module);

}  // namespace levin
