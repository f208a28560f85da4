#include "levin/core/loops/rank_agreement.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <vector>

#include "levin/core/optim/optimizer_access.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin {

namespace {

std::string describe_difference(const std::string& what, const std::vector<std::string>& texts_by_rank) {
  for (std::size_t rank = 1; rank < texts_by_rank.size(); ++rank) {
    std::istringstream first(texts_by_rank.front());
    std::istringstream other(texts_by_rank[rank]);
    std::string first_line;
    std::string other_line;
    while (true) {
      const bool first_more = static_cast<bool>(std::getline(first, first_line));
      const bool other_more = static_cast<bool>(std::getline(other, other_line));
      if (!first_more && !other_more) break;
      if (first_more == other_more && first_line == other_line) continue;
      return "Ranks were started with different " + what + ". Rank 0 has `" + (first_more ? first_line : "(nothing)") +
             "`, rank " + std::to_string(rank) + " has `" + (other_more ? other_line : "(nothing)") +
             "`. Start every rank with the same configuration.";
    }
  }
  return "Ranks were started with different " + what + ".";
}

/// Ranks: all, with one collective where the texts are equal.
void check_same(Trainer::Runtime& runtime, const std::string& what, const std::string& mine) {
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(mine));
  const BoundaryOutcome outcome = runtime.meet(BoundaryKind::kSetup, {hash});
  const auto differs = [&](const BoundaryWords& words) { return words[0] != outcome.words.front()[0]; };
  if (std::none_of(outcome.words.begin(), outcome.words.end(), differs)) return;
  const auto texts = all_gather_text(runtime.strategy->control_group(), mine, ("comparing " + what).c_str());
  throw ConfigError(describe_difference(what, texts));
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
  if (runtime.world_size() == 1) {
    runtime.meet(BoundaryKind::kSetup);
  } else {
    check_same(runtime, "options", describe_setup(runtime, run));
  }
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
  check_same(runtime, "optimizers", text.str());
}

}  // namespace levin
