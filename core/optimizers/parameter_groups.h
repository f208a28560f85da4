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

/// Chooses parameters by their names: a text that a name contains, as "bias"; or, where it has one of `^$*+?()[]{}|` or a
/// backslash, an ECMAScript regular expression that is searched for in it, as "^head[.]".
class LEVIN_API NamePattern {
 public:
  /// `place`: where it is written. Throws ConfigError on an empty text and on a malformed expression.
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
/// A parameter is in the first group of which a pattern matches its name.
///
///     const auto groups = levin::parameter_groups(*this, {{"bias", "norm"}});
///     levin::AdamW optimizer(groups[1], levin::AdamWOptions(lr));
///     auto no_decay = std::make_unique<levin::AdamWOptions>(levin::AdamWOptions(lr).weight_decay(0));
///     optimizer.param_groups().emplace_back(groups[0], std::move(no_decay));
///
/// Throws ConfigError for a pattern that matches no parameter, frozen or not, and for a list all of whose parameters are in
/// groups before it.
LEVIN_API std::vector<std::vector<at::Tensor>> parameter_groups(const torch::nn::Module& module,
                                                                const std::vector<NamePatterns>& patterns);

/// Parameters with options of their own, of the optimizer that `optimizer:` in YAML names.
struct LEVIN_API ParameterGroup {
  NamePatterns parameters;
  Value options = Value(Value::Map{});  ///< by name, in place of those in init_args; marked with the group's place
  /// All options of the group: `init_args` with its own in place of theirs. All have a place, for errors.
  Value options_in(const Value& init_args) const;
};

/// What `optimizer:` in YAML may say beside class_path and init_args.
struct LEVIN_API ParameterGroupOptions {
  NamePatterns no_decay = {};
  std::vector<ParameterGroup> groups = {};
  static void declare(OptionList<ParameterGroupOptions>& options);

  bool empty() const { return no_decay.empty() && groups.empty(); }
  /// Throws ConfigError for whatever does not fit the optimizer class, of which `init_args` are all options.
  void check(const Value& class_path, const Value& init_args) const;
};

/// Makes the optimizer of that class with parameter groups that have options of their own, for Trainer::override_optimizers.
/// The first group is that of parameters without; a group without parameters is left out. Works with every registered optimizer
/// whose options belong to its parameter groups. Making one throws ConfigError as parameter_groups() does, and for an optimizer
/// that takes one group only.
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
  /// Of the patterns only; which options there are depends on the optimizer.
  static Value schema();
};

}  // namespace levin
