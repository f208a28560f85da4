#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/options/options.h"

namespace levin {

/// A number for an optimizer's parameter groups: one for all of them, or a list with one for each.
class LEVIN_API PerGroup {
 public:
  PerGroup(double value = 0.0) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values), is_list_(true) {}
  explicit PerGroup(std::vector<double> values) : values_(std::move(values)), is_list_(true) {}

  bool is_list() const { return is_list_; }
  const std::vector<double>& values() const { return values_; }
  /// One value for each of `groups` groups. Throws ConfigError, naming the option, when a list has another length.
  std::vector<double> expand(std::size_t groups, const std::string& option) const;

 private:
  std::vector<double> values_;
  bool is_list_ = false;
};

template <>
struct LEVIN_API OptionType<PerGroup> {
  static PerGroup read(const Value& value);
  static Value write(const PerGroup& value);
  static std::string name() { return "float or list of float"; }
  static Value schema();
};

}  // namespace levin
