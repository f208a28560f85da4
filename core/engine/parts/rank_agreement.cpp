#include "levin/core/engine/parts/rank_agreement.h"

#include <map>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/options/value_json.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

/// Ranks: all, with one exchange where the texts are equal. `what`: "options".
void require_same(const RunSetup& setup, Stage stage, const std::string& what, const std::string& mine) {
  const auto difference = RankExchange(setup.strategy->control_group())
                              .first_difference(mine, {"comparing " + what + " for " + std::string(stage_name(stage)),
                                                       "every entry point begins with it"});
  if (!difference) return;
  throw ConfigError(
      format("Ranks were started with different {}. Rank 0 has `{}`, rank {} has `{}`. Start every rank with the same "
             "configuration.",
             what, difference->first, difference->rank, difference->other));
}

/// One line a setting, with the names that lead to it, as the command line has them: "trainer.devices: 2".
void add_settings(std::string& text, const std::string& path, const Value& settings) {
  if (settings.is_map() && !settings.as_map().empty()) {
    for (const auto& [name, value] : settings.as_map()) add_settings(text, format("{}.{}", path, name), value);
  } else if (settings.is_list() && !settings.as_list().empty()) {
    std::size_t index = 0;
    for (const Value& value : settings.as_list()) add_settings(text, format("{}.{}", path, index++), value);
  } else {
    text += format("{}: {}\n", path, to_json(settings));
  }
}

std::string describe_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run) {
  // Callbacks and loggers may be objects, of which the options know nothing: they follow with what they say of themselves.
  TrainerOptions options = setup.options;
  options.callbacks.clear();
  options.logger = Loggers(options.logger.enabled());
  options.profiler = {};
  std::string text;
  add_settings(text, "trainer", write_options(options));
  text += "ckpt_path: " + run.ckpt_path.value_or("") + "\n";
  if (run.init_from) text += "init_from: " + run.init_from->path.string() + "\n";
  for (const auto& callback : parts.callbacks) add_settings(text, callback->class_name(), callback->settings());
  if (setup.profiler != nullptr) {
    const Profiler& profiler = *setup.profiler;
    add_settings(text, "profiler " + class_name_of(typeid(profiler)), profiler.settings());
  }
  for (const auto& logger : setup.loggers) add_settings(text, "logger " + logger->name(), logger->settings());
  add_settings(text, "module", parts.module->hparams());
  if (parts.data != nullptr) add_settings(text, "data", parts.data->hparams());
  return text;
}

std::string describe_optimizers(const RunParts& parts) {
  std::map<const at::TensorImpl*, std::string> names;
  for (const auto& entry : parts.module->named_parameters()) names.emplace(entry.value().unsafeGetTensorImpl(), entry.key());
  std::ostringstream text;
  text.precision(17);
  for (std::size_t index = 0; index < parts.optimizers.size(); ++index) {
    const torch::optim::Optimizer& optimizer = *parts.optimizers[index];
    text << "optimizer " << index << ": " << optimizer_class_name(optimizer);
    std::size_t group_index = 0;
    for (const auto& group : optimizer.param_groups()) {
      text << "\noptimizer " << index << ", group " << group_index++ << ": " << group.params().size() << " parameters, lr "
           << get_lr(group);
      if (const auto momentum = get_momentum(group)) text << ", momentum " << *momentum;
      if (const auto betas = get_betas(group)) text << ", betas " << betas->first << " " << betas->second;
      for (const at::Tensor& parameter : group.params()) {
        const auto name = names.find(parameter.unsafeGetTensorImpl());
        text << "\n  " << (name == names.end() ? "a parameter that is not the module's" : name->second);
      }
    }
    text << "\n";
  }
  return text.str();
}

}  // namespace

void check_same_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run, Stage stage) {
  if (setup.world_size() > 1) require_same(setup, stage, "options", describe_setup(setup, parts, run));
}

void check_same_checkpoint(const RunSetup& setup, const std::filesystem::path& file) {
  if (setup.world_size() == 1) return;
  const MappedFile own(file);
  RankExchange ranks(setup.strategy->control_group());
  const Meeting meeting("comparing the checkpoint", "all go on from the file that rank 0 has chosen");
  const auto files =
      ranks.gather_if_different(format("{} bytes with checksum {}", own.bytes().size(), own.checksum()), meeting);
  if (!files) return;
  // Every rank reaches this because all have the same texts.
  const std::vector<std::string> hosts = ranks.gather_text(host_name(), meeting);
  std::map<std::pair<std::string, std::string>, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    groups[{(*files)[rank], hosts[rank]}].push_back(static_cast<int>(rank));
  }
  const auto text_of = [](const auto& group) {
    return format("{} on {} ({})", group.first.first, detail::rank_list(group.second), group.first.second);
  };
  throw ConfigError(
      format("ckpt_path: '{}' is not one file for all ranks: {}. Ranks would go on from different states. Give a folder that "
             "all hosts share, or copy one file to all of them.",
             file, join(groups, "; ", text_of)));
}

void check_same_optimizers(const RunSetup& setup, const RunParts& parts) {
  if (setup.world_size() > 1) require_same(setup, Stage::kTrain, "optimizers", describe_optimizers(parts));
}

void check_same_changes_of_optimizers(const RunSetup& setup, const RunParts& parts) {
  if (setup.world_size() == 1) return;
  const auto difference = RankExchange(setup.strategy->control_group())
                              .first_difference(describe_optimizers(parts),
                                                {"comparing changed optimizers", "all have agreed on changed parameters"});
  if (!difference) return;
  throw DesyncError(
      "The optimizers' parameters have changed differently on ranks; all must add the same groups, in the same hook of the "
      "same batch. " +
      difference->str() + ".");
}

}  // namespace levin
