#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <iosfwd>

#include "levin/core/base/fwd.h"

namespace levin {

/// Batch normalization of inputs of any number of dimensions, as torch::nn::BatchNorm1d to 3d, with the same options and the
/// same names in checkpoints: but in training mean and variance, also in the gradient, are those of all ranks' batches
/// together. Ranks may have batches of different sizes, also empty ones. On one rank, and in evaluation, it behaves as those
/// layers. It uses the ranks' control group, on the CPU: two exchanges per step and layer.
/// Ranks: all call forward() in training, in the same order of layers; otherwise all end with a DesyncError that names the
/// layer.
class LEVIN_API SyncBatchNormImpl
    : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {  // no dimension counts
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options)
      : torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions>(options) {}

  /// Throws MisuseError when all ranks together have fewer than two values per channel.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};
/// The module holder of SyncBatchNormImpl, as for LibTorch's layers.
class SyncBatchNorm : public torch::nn::ModuleHolder<SyncBatchNormImpl> {
 public:
  using torch::nn::ModuleHolder<SyncBatchNormImpl>::ModuleHolder;
  using Impl = SyncBatchNormImpl;
};

/// Makes all BatchNorm layers of a module and its submodules work as SyncBatchNorm until the Trainer's entry point ends. The
/// layers keep their types. `sync_batchnorm: true` of the Trainer calls it in each fit. Ranks: all. Throws ConfigError for a
/// layer with neither affine nor track_running_stats, which cannot be distinguished from others. Unlike SyncBatchNorm, a layer
/// refuses a batch with one value per channel.
LEVIN_API void synchronize_batch_norms(const torch::nn::Module& module);

}  // namespace levin
