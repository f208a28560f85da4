#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "levin/core/options/registry.h"

namespace levin {

/// A part of a run that is given as an object, in C++, or by class name and arguments, in YAML
/// (`EarlyStopping`, or `class_path: EarlyStopping` with `init_args:`).
template <class Base>
class Component {
 public:
  Component() = default;
  template <class Derived>
  requires std::is_convertible_v<std::shared_ptr<Derived>, std::shared_ptr<Base>> Component(std::shared_ptr<Derived> object)
      : object_(std::move(object)) {}
  Component(const char* class_path) : class_path_(class_path) {}
  Component(std::string class_path) : class_path_(std::move(class_path)) {}
  Component(Value class_path, Value init_args) : class_path_(std::move(class_path)), init_args_(std::move(init_args)) {}

  bool empty() const { return object_ == nullptr && class_path_.is_null(); }
  const Value& class_path() const { return class_path_; }
  const Value& init_args() const { return init_args_; }
  /// The object given, or one made by the registry on the first call.
  std::shared_ptr<Base> get() const {
    if (!object_ && !class_path_.is_null()) object_ = Registry<Base>::instance().make(class_path_, init_args_);
    return object_;
  }

 private:
  mutable std::shared_ptr<Base> object_;
  Value class_path_;
  Value init_args_ = Value(Value::Map{});
};

namespace detail {
struct ClassPathAndArgs {
  Value class_path;
  Value init_args;
};
/// Splits `Name` or `{class_path: Name, init_args: {…}}`. Throws ConfigError on any other shape.
ClassPathAndArgs read_class_path(const Value& value, const std::string& expected);
}  // namespace detail

template <class Base>
struct OptionType<Component<Base>> {
  static Component<Base> read(const Value& value) {
    if (value.is_null()) return {};
    auto [class_path, init_args] = detail::read_class_path(value, name());
    return Component<Base>(std::move(class_path), std::move(init_args));
  }
  static Value write(const Component<Base>& component) {
    if (component.class_path().is_null()) return Value();
    Value map(Value::Map{});
    map["class_path"] = component.class_path();
    map["init_args"] = component.init_args();
    return map;
  }
  static std::string name() { return "class_path and init_args"; }
  static Value schema() { return Value(Value::Map{}); }
};

}  // namespace levin
