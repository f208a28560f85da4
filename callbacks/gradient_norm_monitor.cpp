#include <torch/optim/optimizer.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/learning_rates.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

/// The step that is about to be taken ends in a row of step values; the same by default of a callback's log_every_n_steps.
bool step_is_due(const Trainer& trainer, const Module& module, std::optional<std::int64_t> log_every_n_steps) {
  const std::int64_t every = log_every_n_steps.value_or(trainer.options().step_row_interval());
  const std::int64_t steps = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx();
  return every > 0 && (steps + 1) % every == 0;
}

}  // namespace

struct GradientNormMonitorOptions {
  double norm_type = 2;
  bool per_parameter = false;
  std::optional<std::int64_t> log_every_n_steps = std::nullopt;

  static void declare(OptionList<GradientNormMonitorOptions>& options) {
    using O = GradientNormMonitorOptions;
    options.add(&O::norm_type, "Which norm: 2, .inf for the largest absolute value")
        .above(0)
        .instead("a run without GradientNormMonitor logs none");
    options.add(&O::per_parameter, "Log the norm of each parameter's gradient, too");
    options.add(&O::log_every_n_steps, "Steps between measurements; null: the Trainer's log_every_n_steps")
        .min(1)
        .instead("null takes the Trainer's log_every_n_steps");
  }
};

/// Logs the norm of an optimizer's gradients before they are clipped, by Lightning's names: `grad_2.0_norm_total`, with several
/// optimizers `grad_2.0_norm_total/0` and so on; of each parameter group, where there are several, by LearningRateMonitor's
/// names, `grad_2.0_norm/SGD/pg1`; and with per_parameter of each parameter, `grad_2.0_norm/layer.weight`. 2-norms cost nothing
/// where gradients are clipped to a norm. Gradients are whole on each rank by then, also with ddp_sharded: ranks exchange
/// nothing.
class GradientNormMonitor final : public WithOptions<Callback, GradientNormMonitorOptions> {
 public:
  explicit GradientNormMonitor(const Options& options) : WithOptions("GradientNormMonitor", options) {}

  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override {
    if (!step_is_due(trainer, module, options_.log_every_n_steps)) return;
    const double type = options_.norm_type;
    const std::vector<at::Tensor> norms = gradient_norms(trainer, optimizer, type);
    const std::string prefix = format("grad_{}_norm", std::isinf(type) ? "inf" : float_text(type));
    const auto log = [&](const std::string& name, std::span<const at::Tensor> of) {
      const std::optional<double> norm = total_norm({of.begin(), of.end()}, type);
      if (norm) module.log(prefix + name, *norm, {.on_step = true, .on_epoch = false, .reduce = Reduce::kMax});
    };
    log(trainer.optimizers().size() == 1 ? "_total" : format("_total/{}", detail::index_of(optimizer, trainer)), norms);
    std::size_t first = 0;
    for (const NamedParameterGroup& group : named_parameter_groups(trainer)) {
      if (group.optimizer != &optimizer || optimizer.param_groups().size() == 1) continue;
      const std::size_t size = optimizer.param_groups()[group.index].params().size();
      log("/" + group.name.substr(group.name.starts_with("lr-") ? 3 : 0), std::span(norms).subspan(first, size));
      first += size;
    }
    if (!options_.per_parameter) return;
    const std::vector<at::Tensor> parameters = all_parameters(optimizer);
    for (const auto& [name, parameter] : distinct_parameters(module)) {
      for (std::size_t place = 0; place < parameters.size(); ++place) {
        if (parameters[place].is_same(parameter)) log("/" + name, std::span(norms).subspan(place, 1));
      }
    }
  }
};

LEVIN_REGISTER_CALLBACK(GradientNormMonitor, "Log the norm of the gradients, whole and of each parameter group");

}  // namespace levin
