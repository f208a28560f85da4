#include "levin/strategies/gradients/parameter_check.h"

#include <torch/types.h>

#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

using Remark = std::function<std::string(const at::Tensor&)>;

void add_line(std::string& text, const char* kind, const std::string& name, const at::Tensor& tensor, const Remark& remark) {
  std::ostringstream line;
  line << kind << " " << name << " ";
  if (tensor.defined()) {
    line << tensor.sizes() << " " << tensor.scalar_type() << (tensor.requires_grad() ? "" : " not trained") << remark(tensor);
  } else {
    line << "undefined";
  }
  text += line.str() + "\n";
}

std::string describe(const torch::nn::Module& module, const Remark& remark) {
  std::string text;
  for (const auto& entry : module.named_parameters()) add_line(text, "parameter", entry.key(), entry.value(), remark);
  for (const auto& entry : module.named_buffers()) add_line(text, "buffer", entry.key(), entry.value(), remark);
  return text;
}

}  // namespace

void check_same_parameters(const torch::nn::Module& module, ControlGroup& group) {
  const auto difference = RankExchange(group).first_difference(
      describe(module, [](const at::Tensor&) { return ""; }),
      {"the comparison of parameters", "all give their module to the strategy when it is set up"});
  if (difference) throw DesyncError("the module differs between ranks; all must build the same one. " + difference->str());
}

void check_same_changes(const torch::nn::Module& module, ControlGroup& group,
                        const std::function<bool(const at::Tensor&)>& lacks_value,
                        const std::function<bool(const at::Tensor&)>& lacks_reduction) {
  const auto remark = [&](const at::Tensor& tensor) -> std::string {
    if (lacks_value(tensor)) return " new";
    return lacks_reduction(tensor) ? " unfrozen" : "";
  };
  const auto difference = RankExchange(group).first_difference(
      describe(module, remark), {"the comparison of changed parameters", "the votes of all ranks say that some have changed"});
  if (!difference) return;
  throw DesyncError(
      "the module's parameters have changed differently on ranks; all must freeze, unfreeze, add and replace the same, in the "
      "same hook of the same batch. " +
      difference->str());
}

}  // namespace levin
