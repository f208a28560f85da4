#include <torch/optim/optimizer.h>

#include <cstdint>
#include <set>
#include <string>

#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

struct WeightHistogramsOptions {
  std::int64_t every_n_steps = 500;
  bool weights = true;
  bool gradients = true;

  static void declare(OptionList<WeightHistogramsOptions>& options) {
    using O = WeightHistogramsOptions;
    options.add(&O::every_n_steps, "Optimizer steps between histograms; by hand: batches").min(1);
    options.add(&O::weights, "Log weights, before the step");
    options.add(&O::gradients, "Log gradients, before they are clipped");
  }
};

/// Logs histograms of what an optimizer is about to step, `weights/NAME` and `gradients/NAME` of each parameter, on rank 0. A
/// copy of each waits for the loggers where the parameter is; sparse gradients are left out.
class WeightHistograms final : public WithOptions<Callback, WeightHistogramsOptions> {
 public:
  explicit WeightHistograms(const Options& options) : WithOptions("WeightHistograms", options) {}

  void on_fit_start(Trainer& trainer, Module&) override { detail::require_logger("WeightHistograms", trainer); }

  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override {
    const std::int64_t steps = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx();
    if (!trainer.is_global_zero() || steps % options_.every_n_steps != 0) return;
    std::set<const void*> stepped;
    for (const at::Tensor& parameter : all_parameters(optimizer)) stepped.insert(parameter.unsafeGetTensorImpl());
    for (const auto& parameter : module.named_parameters()) {
      const at::Tensor& weights = parameter.value();
      if (!stepped.contains(weights.unsafeGetTensorImpl())) continue;
      if (options_.weights) module.log_histogram("weights/" + parameter.key(), weights);
      const at::Tensor& gradient = weights.grad();
      if (options_.gradients && gradient.defined() && !gradient.is_sparse())
        module.log_histogram("gradients/" + parameter.key(), gradient);
    }
  }
};

LEVIN_REGISTER_CALLBACK(WeightHistograms, "Log histograms of weights and gradients");

}  // namespace levin
