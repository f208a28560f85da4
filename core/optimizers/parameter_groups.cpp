#include "levin/core/optimizers/parameter_groups.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <set>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"

namespace levin {
namespace {

/// Names and their patterns.
std::vector<std::string> name_parts(const std::vector<std::string>& names) {
  std::set<std::string> parts(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::string& part : split(name, ".")) parts.insert(std::move(part));
  }
  return {parts.begin(), parts.end()};
}

void check_matches_any(const NamePattern& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return pattern.matches(name); })) return;
  constexpr std::size_t kMostNames = 10;
  const std::string nearest = nearest_name(pattern.text(), name_parts(names));
  const std::vector<std::string> some(names.begin(), names.begin() + std::min<std::ptrdiff_t>(std::ssize(names), kMostNames));
  const std::string help = nearest.empty() ? format("; there are {}{}", join(some), names.size() > kMostNames ? ", …" : "")
                                           : format("; did you mean {}?", quoted_text(nearest));
  throw ConfigError(pattern.place(), format("no parameter's name matches {}{}", quoted_text(pattern.text()), help));
}

}  // namespace

std::vector<std::vector<at::Tensor>> parameter_groups(const torch::nn::Module& module,
                                                      const std::vector<NamePatterns>& patterns) {
  const std::vector<std::string> names = module.named_parameters().keys();
  for (const NamePatterns& list : patterns) {
    for (const NamePattern& pattern : list) check_matches_any(pattern, names);
  }
  std::vector<std::vector<at::Tensor>> groups(patterns.size() + 1);
  std::vector<bool> has_any(patterns.size() + 1);
  for (const auto& entry : distinct_parameters(module)) {
    const std::string& name = entry.first;  // no structured binding: clang 14 does not let a lambda use one
    const auto list = std::find_if(patterns.begin(), patterns.end(), [&](const NamePatterns& each) {
      return std::any_of(each.begin(), each.end(), [&](const NamePattern& one) { return one.matches(name); });
    });
    const auto group = static_cast<std::size_t>(list - patterns.begin());
    has_any[group] = true;
    if (entry.second.requires_grad()) groups[group].push_back(entry.second);
  }
  for (std::size_t index = 0; index < patterns.size(); ++index) {
    if (has_any[index] || patterns[index].empty()) continue;
    throw ConfigError(patterns[index].front().place(),
                      format("all parameters whose names match {} are in earlier groups: the first match counts",
                             join(patterns[index], ", ", [](const NamePattern& one) { return quoted_text(one.text()); })));
  }
  return groups;
}

namespace {

using torch::optim::Optimizer;

/// A group to make.
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
  std::vector<at::Tensor> without_decay;
  if (!wanted.no_decay.empty()) without_decay = parameter_groups(module, {wanted.no_decay}).front();
  std::vector<Part> parts;
  const auto add = [&](std::vector<at::Tensor> all, const Value& options) {
    Part decaying{{}, options}, other{{}, options};
    other.options["weight_decay"] = 0.0;
    for (at::Tensor& parameter : all) {
      Part& part = is_one_of(parameter, without_decay) ? other : decaying;
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

class GroupedOptimizerFactory final : public OptimizerFactory {
 public:
  GroupedOptimizerFactory(Value class_path, Value init_args, ParameterGroupOptions groups)
      : class_path_(std::move(class_path)), init_args_(std::move(init_args)), groups_(std::move(groups)) {}

  /// With one group.
  std::shared_ptr<Optimizer> make(std::vector<at::Tensor> parameters) const override {
    return Registry<OptimizerFactory>::instance().make(class_path_, init_args_)->make(std::move(parameters));
  }

  std::shared_ptr<Optimizer> make_for(const torch::nn::Module& module) const override {
    const std::vector<Part> parts = parts_of(module, groups_);
    if (parts.empty()) return make({});
    std::shared_ptr<Optimizer> whole;
    for (const Part& part : parts) {
      const Value options = ParameterGroup{{}, part.options}.options_in(init_args_);
      const auto single = Registry<OptimizerFactory>::instance().make(class_path_, options)->make(part.parameters);
      if (whole == nullptr) {
        whole = single;
        continue;
      }
      if (single->param_groups().size() != 1 || dynamic_cast<torch::optim::LBFGS*>(single.get()) != nullptr) {
        throw ConfigError(class_path_.mark(),
                          format("{} takes one group of parameters: remove groups and no_decay", class_path_.as_string()));
      }
      // Not add_param_group(): it treats an option with its class's default as unset.
      whole->param_groups().push_back(single->param_groups().front());
      // State that a constructor has set belongs to its parameters.
      for (auto& [parameter, state] : single->state()) whole->state()[parameter] = std::move(state);
    }
    std::string text = format("{} has {}:", class_path_.as_string(), counted(parts.size(), "parameter group"));
    for (std::size_t index = 0; index < parts.size(); ++index) text += format("\n  pg{}: {}", index + 1, parts[index].str());
    rank_zero_info(text);
    return whole;
  }

 private:
  Value class_path_;
  Value init_args_;
  ParameterGroupOptions groups_;
};

}  // namespace

std::shared_ptr<OptimizerFactory> grouped_optimizer_factory(Value class_path, Value init_args, ParameterGroupOptions groups) {
  return std::make_shared<GroupedOptimizerFactory>(std::move(class_path), std::move(init_args), std::move(groups));
}

}  // namespace levin
