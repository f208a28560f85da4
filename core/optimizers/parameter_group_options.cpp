#include <regex>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/optimizers/parameter_groups.h"

// The configuration of parameter groups, without torch; parameter_groups.cpp divides a module's parameters.
namespace levin {
namespace {

constexpr std::size_t kLongestPattern = 200;  // compiling an expression takes stack for each of its characters
constexpr const char* kPatterns = "parameters";

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
    throw ConfigError(place_, format("{} is not a regular expression: {}", quoted_text(text_), error.what()));
  }
}

Value ParameterGroup::options_in(const Value& init_args) const {
  Value all = init_args;
  for (auto& entry : all.as_map()) entry.second.set_mark(options.mark());
  for (const auto& [name, value] : options.as_map()) all[name] = value;
  all.set_mark(options.mark());
  return all;
}

void ParameterGroupOptions::declare(OptionList<ParameterGroupOptions>& options) {
  options.add("no_decay", &ParameterGroupOptions::no_decay,
              "Parameters without weight decay, in any group: parts of their names, or regular expressions");
  options.add("groups", &ParameterGroupOptions::groups,
              "Parameters with their own options: each a map of `parameters`, parts of their names or regular expressions, and "
              "the options; the first match counts");
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
                     [&] { Registry<OptimizerFactory>::instance().complete(class_path, group.options_in(init_args)); });
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
    throw ConfigError(value.mark(), "missing key 'parameters' (the group's parameters, such as [bias, norm])");
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
