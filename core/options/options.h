#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/value.h"

namespace levin {

/// What is known of one option, whatever struct it belongs to. `levin --help`, the JSON Schema and the YAML reader live on it.
struct LEVIN_API OptionInfo {
  std::string name;
  std::string help;
  std::string type;     ///< as a user reads it: "int", "float", "list of string", …
  Value default_value;  ///< null for an option without a default
  bool required = false;
  std::optional<double> minimum;
  std::optional<double> maximum;
  std::optional<double> above;  ///< a bound that is itself out of range
  std::optional<double> below;  ///< the same
  bool not_empty = false;       ///< a text, list or map that has to hold something
  std::vector<std::string> choices;
  std::string linked_to;    ///< a key of the configuration whose value it takes where it is not given; empty: none
  bool input_file = false;  ///< a path that must exist; a relative one is first tried beside the YAML file that names it
  Value schema;             ///< JSON Schema of the type, without default, help and range
};

/// The options of struct T, declared in its `static void declare(OptionList<T>&)`, beside the members:
///
///     struct DigitsOptions {
///       std::int64_t hidden = 128;
///       double lr = 1e-3;
///       static void declare(levin::OptionList<DigitsOptions>& options) {
///         options.add("hidden", &DigitsOptions::hidden, "Width of the hidden layer").min(1);
///         options.add("lr", &DigitsOptions::lr, "Learning rate").min(0.0);
///       }
///     };
///
/// The default is the member's own initializer. Everything that reads, prints, checks or saves options uses this one list. A
/// member that is one of several values is an enum (see kChoices), or a text with choices().
template <class T>
class OptionList {
 public:
  struct Entry {
    OptionInfo info;
    std::function<void(T&, const Value&)> read;
    std::function<Value(const T&)> write;
    std::function<void(const T&)> check;  ///< throws what reading the member from YAML would
  };
  /// What several options have to keep to together.
  struct Rule {
    std::vector<std::string> options;  ///< those that it is about; an error stands at the first of them that is given
    std::function<std::string(const T&)> problem;
  };

  /// Refines the option that add() has just added.
  class Builder {
   public:
    explicit Builder(OptionInfo& info) : info_(info) {}
    Builder& min(double minimum) {
      info_.minimum = minimum;
      return *this;
    }
    Builder& max(double maximum) {
      info_.maximum = maximum;
      return *this;
    }
    /// As min(), but the bound itself is out of range.
    Builder& above(double bound) {
      info_.above = bound;
      return *this;
    }
    /// As max(), but the bound itself is out of range.
    Builder& below(double bound) {
      info_.below = bound;
      return *this;
    }
    Builder& not_empty() {
      info_.not_empty = true;
      return *this;
    }
    Builder& choices(std::vector<std::string> names) {
      info_.choices = std::move(names);
      return *this;
    }
    /// The option names a file (or folder) that is read: it must exist. The member becomes its absolute path.
    Builder& input_file() {
      info_.input_file = true;
      return *this;
    }
    /// In YAML, where the option is not given, it takes the value at another key, as `data.num_classes`: given there, or that
    /// option's default. Where that key leads nowhere, and in C++, it has its own default.
    Builder& linked_to(std::string key) {
      info_.linked_to = std::move(key);
      return *this;
    }
    /// There is no meaningful default: leaving the option out is an error.
    Builder& required() {
      info_.required = true;
      info_.default_value = Value();
      return *this;
    }

   private:
    OptionInfo& info_;
  };

  template <class Member, class Owner>
  Builder add(std::string name, Member Owner::*member, std::string help) {  // NOLINT(performance-unnecessary-value-param)
    static_assert(std::is_base_of_v<Owner, T>);
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>());
    entry.info.name = std::move(name);
    entry.info.help = std::move(help);
    entry.info.type = OptionType<Member>::name();
    entry.info.schema = OptionType<Member>::schema();
    entry.info.choices = detail::choices_of(static_cast<const Member*>(nullptr));
    entry.info.default_value = OptionType<Member>::write(T{}.*member);
    entry.read = [member, &info = entry.info](T& target, const Value& value) {
      detail::read_option(info, value, [&](const Value& checked) { target.*member = OptionType<Member>::read(checked); });
    };
    entry.write = [member](const T& source) { return OptionType<Member>::write(source.*member); };
    entry.check = [member, &info = entry.info](const T& source) {
      const Value value = OptionType<Member>::write(source.*member);
      detail::check_option(info, value, [&] {
        if constexpr (requires { OptionType<Member>::check(source.*member); }) {
          OptionType<Member>::check(source.*member);
        } else {
          (void)OptionType<Member>::read(value);
        }
      });
    };
    return Builder(entry.info);
  }
  /// A rule between options: `problem` says what is wrong, and what to do; "" when nothing is. Asked only when each option by
  /// itself is right. What it throws as a ConfigError is a problem, too.
  void rule(std::vector<std::string> options, std::function<std::string(const T&)> problem) {
    rules_.push_back({std::move(options), std::move(problem)});
  }

  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Rule> rules_;
};

/// The declared options of T, made once.
template <class T>
const OptionList<T>& option_list() {
  static const OptionList<T> list = [] {
    OptionList<T> made;
    T::declare(made);
    return made;
  }();
  return list;
}

namespace detail {
/// Throws ConfigError for each rule of T that `options` break, at its place in `map`.
template <class T>
void check_rules(const T& options, const Value& map) {
  ErrorCollector errors;
  for (const auto& rule : option_list<T>().rules())
    errors.run([&] { check_rule(rule.options, map, [&] { return rule.problem(options); }); });
  errors.throw_if_any();
}
}  // namespace detail

/// Reads a map into a T. Keys that are missing keep their default. Throws ConfigError, with file:line:column and the offending
/// text, on an unknown key ("did you mean …"), a wrong type, a value out of range, a missing file, a missing required option,
/// or a rule that is broken; ConfigErrors when there are several of these.
template <class T>
T read_options(const Value& map) {
  const OptionList<T>& list = option_list<T>();
  std::vector<const OptionInfo*> known;
  for (const auto& entry : list.entries()) known.push_back(&entry->info);
  ErrorCollector errors;
  errors.run([&] { detail::check_keys(known, map); });
  T options{};
  for (const auto& entry : list.entries()) {
    if (const Value* value = map.find(entry->info.name)) errors.run([&] { entry->read(options, *value); });
  }
  errors.throw_if_any();
  detail::check_rules(options, map);
  return options;
}

/// Options as they were set in C++, for the constructor of the class that they are for: gives them back when every one of them
/// could also stand in YAML. Throws ConfigError as read_options() does, with the names of class and option in place of the
/// file.
template <class T>
T checked(const std::string& class_name, T options) {
  detail::naming(class_name, [&] {
    ErrorCollector errors;
    for (const auto& entry : option_list<T>().entries()) errors.run([&] { entry->check(options); });
    errors.throw_if_any();
    detail::check_rules(options, Value());
  });
  return options;
}

/// Writes every option of T, defaults included, as a map that read_options turns into an equal T.
template <class T>
Value write_options(const T& options) {
  Value map = Value(Value::Map{});
  for (const auto& entry : option_list<T>().entries()) map[entry->info.name] = entry->write(options);
  return map;
}

/// What T's options are, for help and schema.
template <class T>
std::vector<OptionInfo> describe_options() {
  std::vector<OptionInfo> infos;
  for (const auto& entry : option_list<T>().entries()) infos.push_back(entry->info);
  return infos;
}

namespace detail {
/// "at least 0", "below 1": the range of an option in words; empty when it has none.
LEVIN_API std::vector<std::string> bounds(const OptionInfo& info);
/// JSON Schema of a map with these options and no others.
LEVIN_API Value schema_of_options(const std::vector<OptionInfo>& options);
}  // namespace detail

/// A struct that declares options can be an option itself: a map within the map.
template <class T>
requires requires(OptionList<T>& list) { T::declare(list); }
struct OptionType<T> {
  static T read(const Value& value) { return read_options<T>(value); }
  static Value write(const T& options) { return write_options(options); }
  static std::string name() { return "map"; }
  static Value schema() { return detail::schema_of_options(describe_options<T>()); }
};

}  // namespace levin
