#include "levin/strategies/distributed/parameter_check.h"

#include <torch/types.h>

#include <sstream>

#include "levin/core/error.h"
#include "levin/core/protocol/rank_exchange.h"

namespace levin {

namespace {

void add_line(std::string& text, const char* kind, const std::string& name, const at::Tensor& tensor) {
  std::ostringstream line;
  line << kind << " " << name << " ";
  if (tensor.defined()) {
    line << tensor.sizes() << " " << tensor.scalar_type() << (tensor.requires_grad() ? "" : " not trained");
  } else {
    line << "undefined";
  }
  text += line.str() + "\n";
}

std::string describe(const torch::nn::Module& module) {
  std::string text;
  for (const auto& entry : module.named_parameters()) add_line(text, "parameter", entry.key(), entry.value());
  for (const auto& entry : module.named_buffers()) add_line(text, "buffer", entry.key(), entry.value());
  return text;
}

}  // namespace

void check_same_parameters(const torch::nn::Module& module, ControlGroup& group) {
  const auto difference = RankExchange(group).first_difference(
      describe(module), {"the comparison of parameters", "all give their module to the strategy when it is set up"});
  if (difference) throw DesyncError("the module differs between ranks; all must build the same one. " + difference->str());
}

}  // namespace levin
