#include "levin/core/optimizers/parameter_groups.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <regex>
#include <set>
#include <utility>

#include "levin/core/base/did_you_mean.h"
#include "levin/core/base/format.h"
#include "levin/core/base/join.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/optimizers/grouped_optimizer.h"
#include "levin/core/options/registry.h"

namespace levin {
namespace {

constexpr std::size_t kLongestPattern = 200;  // compiling an expression takes stack for each of its characters
constexpr const char* kPatterns = "parameters";

std::string texts_of(const NamePatterns& patterns) {
  return join(patterns, ", ", [](const NamePattern& pattern) { return quoted_text(pattern.text()); });
}

/// Names, and what they are made of.
std::vector<std::string> parts_of(const std::vector<std::string>& names) {
  std::set<std::string> parts(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::size_t begin = 0; begin < name.size();) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      parts.insert(name.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return {parts.begin(), parts.end()};
}

void check_matches_any(const NamePattern& pattern, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return pattern.matches(name); })) return;
  constexpr std::size_t kMostNames = 10;
  const std::string nearest = nearest_name(pattern.text(), parts_of(names));
  const std::vector<std::string> some(names.begin(), names.begin() + std::min<std::ptrdiff_t>(std::ssize(names), kMostNames));
  const std::string help = nearest.empty() ? format("; there are {}{}", join(some), names.size() > kMostNames ? ", …" : "")
                                           : format("; did you mean {}?", quoted_text(nearest));
  throw ConfigError(pattern.place(), format("no parameter's name matches {}{}", quoted_text(pattern.text()), help));
}

}  // namespace

NamePattern::NamePattern(std::string text, Mark place) : text_(std::move(text)), place_(std::move(place)) {
  if (text_.empty()) throw ConfigError(place_, "the pattern is empty; it is a part of a parameter's name");
  if (text_.find_first_of("^$*+?()[]{}|\\") == std::string::npos) {
    matches_ = [part = text_](const std::string& name) { return name.find(part) != std::string::npos; };
    return;
  }
  if (text_.size() > kLongestPattern)
    throw ConfigError(place_, format("the regular expression is longer than {} characters", kLongestPattern));
  try {
    matches_ = [expression = std::regex(text_)](const std::string& name) { return std::regex_search(name, expression); };
  } catch (const std::regex_error& error) {
    throw ConfigError(place_, format("{} is no regular expression: {}", quoted_text(text_), error.what()));
  }
}

std::vector<std::vector<at::Tensor>> parameter_groups(const torch::nn::Module& module,
                                                      const std::vector<NamePatterns>& patterns) {
  const auto parameters = module.named_parameters();
  const std::vector<std::string> names = parameters.keys();
  for (const NamePatterns& list : patterns) {
    for (const NamePattern& pattern : list) check_matches_any(pattern, names);
  }
  std::vector<std::vector<at::Tensor>> groups(patterns.size() + 1);
  std::vector<bool> has_any(patterns.size() + 1);
  std::set<const at::TensorImpl*> seen;
  for (const auto& parameter : parameters) {
    // One that several modules share has a name in each.
    if (!seen.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    const auto list = std::find_if(patterns.begin(), patterns.end(), [&](const NamePatterns& each) {
      return std::any_of(each.begin(), each.end(), [&](const NamePattern& one) { return one.matches(parameter.key()); });
    });
    const auto group = static_cast<std::size_t>(list - patterns.begin());
    has_any[group] = true;
    if (parameter.value().requires_grad()) groups[group].push_back(parameter.value());
  }
  for (std::size_t index = 0; index < patterns.size(); ++index) {
    if (has_any[index] || patterns[index].empty()) continue;
    throw ConfigError(patterns[index].front().place(),
                      format("all parameters whose names match {} are in groups before this one: the first that matches counts",
                             texts_of(patterns[index])));
  }
  return groups;
}

Value options_of_group(const Value& init_args, const ParameterGroup& group) {
  Value options = init_args;
  for (auto& entry : options.as_map()) entry.second.set_mark(group.options.mark());
  for (const auto& [name, value] : group.options.as_map()) options[name] = value;
  options.set_mark(group.options.mark());
  return options;
}

void ParameterGroupOptions::declare(OptionList<ParameterGroupOptions>& options) {
  options.add("no_decay", &ParameterGroupOptions::no_decay,
              "Parameters without weight decay, in whichever group: parts of their names, or regular expressions");
  options.add(
      "groups", &ParameterGroupOptions::groups,
      "Parameters with options of their own: each a map of `parameters`, parts of their names or regular expressions, and "
      "the options; the first that matches counts");
}

void ParameterGroupOptions::check(const Value& class_path, const Value& init_args) const {
  ErrorCollector errors;
  errors.run([&] {
    if (!no_decay.empty() && init_args.find("weight_decay") == nullptr) {
      throw ConfigError(no_decay.front().place(), format("no_decay: {} has no weight_decay", class_path.as_string()));
    }
  });
  for (const ParameterGroup& group : groups) {
    errors.run([&] {
      detail::naming("groups",
                     [&] { Registry<OptimizerFactory>::instance().complete(class_path, options_of_group(init_args, group)); });
    });
  }
  errors.throw_if_any();
}

Value OptionType<NamePattern>::schema() {
  Value text = detail::schema_of_type("string");
  text["minLength"] = 1;
  text["type"] = Value(Value::List{"string", "integer"});
  return text;
}

ParameterGroup OptionType<ParameterGroup>::read(const Value& value) {
  if (!value.is_map()) detail::throw_wrong_type(value, name());
  ParameterGroup group;
  group.options.set_mark(value.mark());
  const Value* patterns = value.find(kPatterns);
  if (patterns == nullptr) {
    throw ConfigError(value.mark(), "missing key 'parameters' (which parameters the group is of: [bias, norm])");
  }
  detail::naming(kPatterns, [&] {
    group.parameters = OptionType<NamePatterns>::read(*patterns);
    if (group.parameters.empty()) throw ConfigError(patterns->mark(), "is an empty list");
  });
  for (const auto& entry : value.as_map()) {
    if (entry.first != kPatterns) group.options.as_map().push_back(entry);
  }
  return group;
}

Value OptionType<ParameterGroup>::write(const ParameterGroup& group) {
  Value map(Value::Map{});
  map[kPatterns] = OptionType<NamePatterns>::write(group.parameters);
  for (const auto& [name, value] : group.options.as_map()) map[name] = value;
  return map;
}

Value OptionType<ParameterGroup>::schema() {
  Value map = detail::schema_of_type("object");
  Value& patterns = map["properties"][kPatterns] = OptionType<NamePatterns>::schema();
  patterns["minItems"] = 1;
  map["required"] = Value(Value::List{kPatterns});
  return map;
}

}  // namespace levin
