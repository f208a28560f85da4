#include "levin/core/run/rank_agreement.h"

#include <sstream>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/rank_exchange.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin {

namespace {

/// Ranks: all, with one exchange where the texts are equal. `what`: "options".
void require_same(Trainer::Runtime& runtime, const std::string& what, const std::string& mine) {
  const std::string stage(stage_name(runtime.state.stage));
  const auto difference =
      RankExchange(runtime.strategy->control_group())
          .first_difference(mine, {"comparing " + what + " for " + stage, "every entry point begins with it"});
  if (!difference) return;
  throw ConfigError("Ranks were started with different " + what + ". " + difference->str() +
                    ". Start every rank with the same configuration.");
}

/// One line a setting, each with the name of what it belongs to.
void add_settings(std::string& text, const std::string& owner, const Value& settings) {
  if (settings.is_null()) {
    text += owner + "\n";
    return;
  }
  std::istringstream lines(to_yaml(settings));
  for (std::string line; std::getline(lines, line);) text += owner + ": " + line + "\n";
}

std::string describe_setup(const Trainer::Runtime& runtime, const RunOptions& run) {
  // Callbacks and loggers may be objects, of which the options know nothing: they follow with what they say of themselves.
  TrainerOptions options = runtime.options;
  options.callbacks.clear();
  options.logger = Loggers(options.logger.enabled());
  std::string text = to_yaml(write_options(options));
  text += "ckpt_path: " + run.ckpt_path.value_or("") + "\n";
  for (const auto& callback : runtime.callbacks) add_settings(text, callback->class_name(), callback->settings());
  for (const auto& logger : runtime.loggers) add_settings(text, "logger " + logger->name(), logger->settings());
  add_settings(text, "module", runtime.module->hparams());
  if (runtime.data != nullptr) add_settings(text, "data", runtime.data->hparams());
  return text;
}

}  // namespace

void check_same_setup(Trainer::Runtime& runtime, const RunOptions& run) {
  if (runtime.world_size() > 1) require_same(runtime, "options", describe_setup(runtime, run));
}

void check_same_optimizers(Trainer::Runtime& runtime) {
  if (runtime.world_size() == 1) return;
  std::ostringstream text;
  text.precision(17);
  for (std::size_t index = 0; index < runtime.optimizers.size(); ++index) {
    const torch::optim::Optimizer& optimizer = *runtime.optimizers[index];
    text << "optimizer " << index << ": " << optimizer_class_name(optimizer);
    std::size_t group_index = 0;
    for (const auto& group : optimizer.param_groups()) {
      text << "\noptimizer " << index << ", group " << group_index++ << ": " << group.params().size() << " parameters, lr "
           << get_lr(group);
      if (const auto momentum = get_momentum(group)) text << ", momentum " << *momentum;
      if (const auto betas = get_betas(group)) text << ", betas " << betas->first << " " << betas->second;
    }
    text << "\n";
  }
  require_same(runtime, "optimizers", text.str());
}

}  // namespace levin
