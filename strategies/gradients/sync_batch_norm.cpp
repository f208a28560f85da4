#include "levin/strategies/gradients/sync_batch_norm.h"

#include <torch/types.h>

#include <ostream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/gradients/synchronized_layers.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw MisuseError(
      format("SyncBatchNorm of {} features got an input of the shape {}: its second dimension has to be the features.",
             options.num_features(), c10::str(input.sizes())));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const bool takes_statistics = is_training() || !options.track_running_stats();
  double momentum = options.momentum().value_or(0.0);
  if (is_training() && options.track_running_stats()) {
    num_batches_tracked += 1;
    if (!options.momentum()) momentum = 1.0 / num_batches_tracked.item<double>();
  }
  if (is_training() && ProcessWorld::is_joined() && ProcessWorld::current()->control_group().size() > 1) {
    return synchronized_batch_norm(input, {weight, bias, running_mean, running_var, momentum, options.eps()},
                                   format("SyncBatchNorm of {} features", options.num_features()));
  }
  return torch::nn::functional::detail::batch_norm(input, running_mean, running_var, weight, bias, takes_statistics, momentum,
                                                   options.eps());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "levin::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

void synchronize_batch_norms(const torch::nn::Module& module) {
  if (ProcessWorld::is_joined() && ProcessWorld::current()->control_group().size() > 1) set_synchronized_layers(module);
}

}  // namespace levin
