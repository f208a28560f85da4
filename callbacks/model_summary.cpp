#include "levin/callbacks/model_summary.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <vector>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

struct Count {
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  std::int64_t bytes = 0;
};

Count count_parameters(const std::vector<at::Tensor>& parameters) {
  Count count;
  std::unordered_set<const void*> seen;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    count.parameters += parameter.numel();
    count.bytes += parameter.numel() * static_cast<std::int64_t>(parameter.element_size());
    if (parameter.requires_grad()) count.trainable += parameter.numel();
  }
  return count;
}

void add_rows(TextTable& table, const torch::nn::Module& parent, const std::string& prefix, std::int64_t levels) {
  if (levels == 0) return;
  for (const auto& child : parent.named_children()) {
    const torch::nn::Module& module = *child.value();
    const std::string name = prefix + child.key();
    table.rows.push_back({std::to_string(table.rows.size()), name, detail::short_type_name(module.name()),
                          detail::abbreviated_count(count_parameters(module.parameters()).parameters),
                          module.is_training() ? "train" : "eval"});
    add_rows(table, module, name + ".", levels - 1);
  }
}

std::string footer_line(const std::string& figure, const std::string& label) {
  std::string line = figure;
  line.resize(std::max<std::size_t>(line.size() + 1, 10), ' ');
  return format("\n{}{}", line, label);
}

}  // namespace

std::string summarize_model(const torch::nn::Module& model, std::int64_t max_depth) {
  TextTable table;
  table.header = {" ", "Name", "Type", "Params", "Mode"};
  add_rows(table, model, "", max_depth);
  const Count own = count_parameters(model.parameters(/*recurse=*/false));
  if (own.parameters > 0) table.rows.push_back({" ", "other params", "n/a", detail::abbreviated_count(own.parameters), "n/a"});

  const Count total = count_parameters(model.parameters());
  std::int64_t in_train_mode = 0;
  const auto submodules = model.modules(/*include_self=*/false);
  for (const auto& module : submodules) in_train_mode += module->is_training() ? 1 : 0;

  return table.str() + "\n" + footer_line(detail::abbreviated_count(total.trainable), "Trainable params") +
         footer_line(detail::abbreviated_count(total.parameters - total.trainable), "Non-trainable params") +
         footer_line(detail::abbreviated_count(total.parameters), "Total params") +
         footer_line(format("{:.3f}", static_cast<double>(total.bytes) * 1e-6), "Total estimated model params size (MB)") +
         footer_line(std::to_string(in_train_mode), "Modules in train mode") +
         footer_line(std::to_string(static_cast<std::int64_t>(submodules.size()) - in_train_mode), "Modules in eval mode");
}

LEVIN_REGISTER_CALLBACK(ModelSummary, "Print what the model is made of");

void ModelSummaryOptions::declare(OptionList<ModelSummaryOptions>& options) {
  options.add(&ModelSummaryOptions::max_depth, "Levels of submodules to show; -1: all, 0: no summary")
      .min(-1)
      .instead("-1 shows all");
}

void ModelSummary::on_fit_start(Trainer& trainer, Module& module) {
  if (options_.max_depth == 0 || !trainer.is_global_zero()) return;
  rank_zero_info("\n" + summarize_model(module, options_.max_depth));
}

}  // namespace levin
