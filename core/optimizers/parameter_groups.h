#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"

namespace torch::nn {
class Module;
}

namespace levin {

class OptimizerFactory;

/// Selects parameters by name: with a text that a name contains, such as "bias"; or, if it has one of `^$*+?()[]{}|` or a
/// backslash, with an ECMAScript regular expression to search for, such as "^head[.]".
class LEVIN_API NamePattern {
 public:
  /// `place`: its position in YAML. Throws ConfigError for an empty text and for a malformed expression.
  NamePattern(std::string text, Mark place = {});
  NamePattern(const char* text) : NamePattern(std::string(text)) {}

  bool matches(const std::string& name) const { return matches_(name); }
  const std::string& text() const { return text_; }
  const Mark& place() const { return place_; }

 private:
  std::string text_;
  Mark place_;
  std::function<bool(const std::string&)> matches_;
};

using NamePatterns = std::vector<NamePattern>;

/// A module's parameters that need a gradient, divided by their names: one group for each list of patterns, and last the rest.
/// A parameter is in the first group with a pattern that matches its name.
///
///     const auto groups = levin::parameter_groups(*this, {{"bias", "norm"}});
///     levin::AdamW optimizer(groups[1], levin::AdamWOptions(lr));
///     auto no_decay = std::make_unique<levin::AdamWOptions>(levin::AdamWOptions(lr).weight_decay(0));
///     optimizer.param_groups().emplace_back(groups[0], std::move(no_decay));
///
/// Throws ConfigError for a pattern that matches no parameter, frozen or not, and for a list whose parameters are all in
/// earlier groups.
LEVIN_API std::vector<std::vector<at::Tensor>> parameter_groups(const torch::nn::Module& module,
                                                                const std::vector<NamePatterns>& patterns);

/// Parameters with their own options, for the optimizer that `optimizer:` in YAML names.
struct LEVIN_API ParameterGroup {
  NamePatterns parameters;
  Value options = Value(Value::Map{});  ///< by name, overriding init_args; marked with the group's position
  /// All options of the group: `init_args`, overridden by its own. All have a position, for errors.
  Value options_in(const Value& init_args) const;
};

/// Further options of `optimizer:` in YAML, besides class_path and init_args.
struct LEVIN_API ParameterGroupOptions {
  NamePatterns no_decay = {};
  std::vector<ParameterGroup> groups = {};
  static void declare(OptionList<ParameterGroupOptions>& options);

  bool empty() const { return no_decay.empty() && groups.empty(); }
  /// Throws ConfigError for options that the optimizer class lacks; `init_args` are all of its options.
  void check(const Value& class_path, const Value& init_args) const;
};

/// Makes the optimizer of that class with parameter groups that have their own options, for Trainer::override_optimizers. The
/// first group has all other parameters; a group without parameters is omitted. Works with every registered optimizer whose
/// options belong to its parameter groups. Making one throws ConfigError as parameter_groups() does, and for an optimizer that
/// takes only one group.
LEVIN_API std::shared_ptr<OptimizerFactory> grouped_optimizer_factory(Value class_path, Value init_args,
                                                                      ParameterGroupOptions groups);

template <>
struct LEVIN_API OptionType<NamePattern> {
  static NamePattern read(const Value& value) { return {OptionType<std::string>::read(value), value.mark()}; }
  static Value write(const NamePattern& pattern) { return pattern.text(); }
  static std::string name() { return "string"; }
  static Value schema();
};

template <>
struct LEVIN_API OptionType<ParameterGroup> {
  static ParameterGroup read(const Value& value);
  static Value write(const ParameterGroup& group);
  static std::string name() { return "map of parameters and options"; }
  /// Describes only the patterns; the options depend on the optimizer.
  static Value schema();
};

}  // namespace levin
