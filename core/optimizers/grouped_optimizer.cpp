#include "levin/core/optimizers/grouped_optimizer.h"

#include <torch/optim/lbfgs.h>

#include <set>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/optimizers/parameter_group_options.h"
#include "levin/core/options/registry.h"
#include "levin/core/options/value_json.h"

namespace levin {

namespace {

using torch::optim::Optimizer;

/// A group to be.
struct Part {
  std::vector<at::Tensor> parameters;
  Value options;  ///< its own, of the optimizer's

  std::string str() const {
    std::int64_t numbers = 0;
    for (const at::Tensor& parameter : parameters) numbers += parameter.numel();
    std::string text = counted(parameters.size(), "tensor") + ", " + counted(static_cast<std::size_t>(numbers), "parameter");
    for (const auto& [name, value] : options.as_map()) text += format(", {} {}", name, to_json(value));
    return text;
  }
};

std::vector<Part> parts_of(const torch::nn::Module& module, const ParameterGroupOptions& wanted) {
  std::vector<NamePatterns> patterns;
  for (const ParameterGroup& group : wanted.groups) patterns.push_back(group.parameters);
  auto parameters = parameter_groups(module, patterns);
  std::set<const at::TensorImpl*> without_decay;
  if (!wanted.no_decay.empty()) {
    const auto divided = parameter_groups(module, {wanted.no_decay});
    for (const at::Tensor& parameter : divided.front()) without_decay.insert(parameter.unsafeGetTensorImpl());
  }
  std::vector<Part> parts;
  const auto add = [&](std::vector<at::Tensor> all, const Value& options) {
    Part decaying{{}, options}, other{{}, options};
    other.options["weight_decay"] = 0.0;
    for (at::Tensor& parameter : all) {
      Part& part = without_decay.contains(parameter.unsafeGetTensorImpl()) ? other : decaying;
      part.parameters.push_back(std::move(parameter));
    }
    if (!decaying.parameters.empty()) parts.push_back(std::move(decaying));
    if (!other.parameters.empty()) parts.push_back(std::move(other));
  };
  add(std::move(parameters.back()), Value(Value::Map{}));
  for (std::size_t index = 0; index < wanted.groups.size(); ++index)
    add(std::move(parameters[index]), wanted.groups[index].options);
  return parts;
}

}  // namespace

GroupedOptimizerFactory::GroupedOptimizerFactory(Value class_path, Value init_args, ParameterGroupOptions groups)
    : class_path_(std::move(class_path)), init_args_(std::move(init_args)), groups_(std::move(groups)) {}

std::shared_ptr<Optimizer> GroupedOptimizerFactory::make(std::vector<at::Tensor> parameters) const {
  return Registry<OptimizerFactory>::instance().make(class_path_, init_args_)->make(std::move(parameters));
}

std::shared_ptr<Optimizer> GroupedOptimizerFactory::make_for(const torch::nn::Module& module) const {
  const std::vector<Part> parts = parts_of(module, groups_);
  if (parts.empty()) return make({});
  std::shared_ptr<Optimizer> whole;
  for (const Part& part : parts) {
    const Value options = options_of_group(init_args_, {{}, part.options});
    const auto single = Registry<OptimizerFactory>::instance().make(class_path_, options)->make(part.parameters);
    if (whole == nullptr) {
      whole = single;
      continue;
    }
    if (single->param_groups().size() != 1 || dynamic_cast<torch::optim::LBFGS*>(single.get()) != nullptr) {
      throw ConfigError(class_path_.mark(),
                        format("{} takes one group of parameters: leave out groups and no_decay", class_path_.as_string()));
    }
    // Not add_param_group(): it takes an option that has its class's default for one that is not set.
    whole->param_groups().push_back(single->param_groups().front());
    // What a constructor has given its parameters belongs to them.
    for (auto& [parameter, state] : single->state()) whole->state()[parameter] = std::move(state);
  }
  std::string text = format("{} has {}:", class_path_.as_string(), counted(parts.size(), "parameter group"));
  for (std::size_t index = 0; index < parts.size(); ++index) text += format("\n  pg{}: {}", index + 1, parts[index].str());
  rank_zero_info(text);
  return whole;
}

std::shared_ptr<OptimizerFactory> grouped_optimizer_factory(Value class_path, Value init_args, ParameterGroupOptions groups) {
  return std::make_shared<GroupedOptimizerFactory>(std::move(class_path), std::move(init_args), std::move(groups));
}

}  // namespace levin
