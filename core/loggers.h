#pragma once

#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/logger.h"
#include "levin/core/options/component.h"

namespace levin {

/// `true` (the default logger), `false` (none), one logger or several.
class LEVIN_API Loggers {
 public:
  Loggers() = default;
  Loggers(bool enabled) : enabled_(enabled) {}
  template <class Derived>
  requires std::is_convertible_v<std::shared_ptr<Derived>, std::shared_ptr<Logger>> Loggers(std::shared_ptr<Derived> logger)
      : list_{std::move(logger)} {}
  Loggers(Component<Logger> logger) : list_{std::move(logger)} {}
  Loggers(std::vector<Component<Logger>> list) : list_(std::move(list)) {}
  Loggers(std::initializer_list<Component<Logger>> list) : list_(list) {}
  bool enabled() const { return enabled_; }
  bool is_default() const { return enabled_ && list_.empty(); }
  const std::vector<Component<Logger>>& list() const { return list_; }

 private:
  bool enabled_ = true;
  std::vector<Component<Logger>> list_;
};

template <>
struct LEVIN_API OptionType<Loggers> {
  static Loggers read(const Value& value);
  static void check(const Loggers& loggers) { OptionType<std::vector<Component<Logger>>>::check(loggers.list()); }
  static Value write(const Loggers& loggers);
  static std::string name() { return "bool, class_path and init_args, or a list of these"; }
  static Value schema();
};

}  // namespace levin
