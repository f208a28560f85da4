#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/shared.h"
#include "levin/core/config/registry.h"

namespace levin {

/// An object of a run: in C++ an object or a shared_ptr, in YAML a class name and arguments (`EarlyStopping`, or `class_path:
/// EarlyStopping` with `init_args:`).
template <class Base>
class Component {
 public:
  Component() = default;
  template <class Derived>
  requires std::is_convertible_v<std::shared_ptr<Derived>, std::shared_ptr<Base>> Component(std::shared_ptr<Derived> object)
      : object_(std::move(object)) {}
  template <class Derived>
  requires std::derived_from<Derived, Base> Component(Derived&& object)
      : object_(Shared<Base>(std::forward<Derived>(object))) {}
  Component(const char* class_path) : class_path_(class_path) {}
  Component(std::string class_path) : class_path_(std::move(class_path)) {}
  Component(Value class_path, Value init_args) : class_path_(std::move(class_path)), init_args_(std::move(init_args)) {}

  /// With the arguments checked, and their defaults filled in. Throws ConfigError as Registry::complete() does.
  static Component completed(Value class_path, const Value& init_args) {
    Value complete = Registry<Base>::instance().complete(class_path, init_args);
    Component component(std::move(class_path), std::move(complete));
    component.is_complete_ = true;
    return component;
  }

  bool empty() const { return object_ == nullptr && class_path_.is_null(); }
  /// Its arguments come from completed(), as those of YAML do, and need no further check.
  bool is_complete() const { return is_complete_; }
  const Value& class_path() const { return class_path_; }
  const Value& init_args() const { return init_args_; }
  /// The given object, or one that the registry makes on the first call.
  std::shared_ptr<Base> get() const {
    if (!object_ && !class_path_.is_null()) object_ = Registry<Base>::instance().make(class_path_, init_args_);
    return object_;
  }

 private:
  mutable std::shared_ptr<Base> object_;
  Value class_path_;
  Value init_args_ = Value(Value::Map{});
  bool is_complete_ = false;
};

namespace detail {
struct LEVIN_API ClassPathAndArgs {
  Value class_path;
  Value init_args;
};
/// Splits `Name` or `{class_path: Name, init_args: {…}}`; init_args is optional. Throws ConfigError for any other shape.
LEVIN_API ClassPathAndArgs read_class_path(const Value& value, const std::string& expected);
/// A reference to the schema of a kind of classes, which the schema of a whole YAML file defines.
LEVIN_API Value schema_of_class(const std::string& kind);
}  // namespace detail

/// Reading checks the class name and its arguments, and fills in the arguments' defaults; the object is made by get().
template <class Base>
struct OptionType<Component<Base>> {
  static Component<Base> read(const Value& value) {
    if (value.is_null()) return {};
    auto [class_path, init_args] = detail::read_class_path(value, name());
    return Component<Base>::completed(std::move(class_path), init_args);
  }
  /// An object was checked by its constructor, and YAML when it was read.
  static void check(const Component<Base>& component) {
    if (component.class_path().is_null() || component.is_complete()) return;
    const std::string& name = component.class_path().as_string();
    detail::naming(name, [&] { Registry<Base>::instance().complete(component.class_path(), component.init_args()); });
  }
  static Value write(const Component<Base>& component) {
    if (component.init_args().size() == 0) return component.class_path();
    Value map(Value::Map{});
    map["class_path"] = component.class_path();
    map["init_args"] = component.init_args();
    return map;
  }
  static std::string name() { return Registry<Base>::kind() + " (class name, or class_path and init_args)"; }
  static Value schema() { return detail::schema_of_class(Registry<Base>::kind()); }
};

/// A list of components, or a single one.
template <class Base>
struct OptionType<std::vector<Component<Base>>> {
  static std::vector<Component<Base>> read(const Value& value) {
    if (!value.is_list()) return {OptionType<Component<Base>>::read(value)};
    std::vector<Component<Base>> list;
    ErrorCollector errors;
    for (const Value& element : value.as_list()) {
      errors.run([&] {
        if (element.is_null()) detail::throw_wrong_type(element, OptionType<Component<Base>>::name());
        list.push_back(OptionType<Component<Base>>::read(element));
      });
    }
    errors.throw_if_any();
    return list;
  }
  static void check(const std::vector<Component<Base>>& list) {
    ErrorCollector errors;
    for (const Component<Base>& component : list) {
      errors.run([&] {
        if (component.empty()) throw ConfigError("holds an empty entry; remove it");
        OptionType<Component<Base>>::check(component);
      });
    }
    errors.throw_if_any();
  }
  static Value write(const std::vector<Component<Base>>& list) {
    Value::List values;
    for (const Component<Base>& component : list) values.push_back(OptionType<Component<Base>>::write(component));
    return Value(std::move(values));
  }
  static std::string name() { return "list of " + OptionType<Component<Base>>::name(); }
  static Value schema() {
    const Value element = detail::schema_of_class(Registry<Base>::kind());
    Value list = detail::schema_of_type("array");
    list["items"] = element;
    return detail::any_of({list, element});
  }
};

}  // namespace levin
