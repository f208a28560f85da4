#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// Losses of one rank, by which a step of the optimizer goes: of all backward passes since the step before.
struct LEVIN_API StepLoss {
  double sum = 0;     ///< of losses times their weights
  double weight = 0;  ///< 0: there was no loss
};

/// This rank's; the mean over ranks is the quotient of the sums over ranks. A loss weighs as its gradients do: with its batch's
/// samples where batches have one size on all ranks, else 1, and 1 under manual optimization. Waits for a device. Called: in
/// on_before_optimizer_step.
LEVIN_API StepLoss loss_of_step(const Trainer& trainer);

/// The norm of each gradient, in the order of all_parameters(); undefined where there is none: whole on every rank and unscaled
/// in on_before_optimizer_step, and from before gradients were clipped. 2-norms are computed once in a step, and clipping to a
/// norm takes the same. `norm_type`: infinity gives the largest absolute value.
LEVIN_API std::vector<at::Tensor> gradient_norms(const Trainer& trainer, const torch::optim::Optimizer& optimizer,
                                                 double norm_type = 2);

/// The norm of all that have these norms, as torch.nn.utils.get_total_norm gives it; unset when none is defined. Waits for a
/// device once.
LEVIN_API std::optional<double> total_norm(const std::vector<at::Tensor>& norms, double norm_type = 2);

}  // namespace levin
