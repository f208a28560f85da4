#include "levin/optim/per_group.h"

#include "levin/core/base/format.h"

namespace levin {

std::vector<double> PerGroup::expand(std::size_t groups, const std::string& option) const {
  if (!is_list_) return std::vector<double>(groups, values_.front());
  if (values_.size() != groups) {
    throw ConfigError(
        format("{} has {} values, but the optimizer has {} parameter groups: give one value, or one for each group.", option,
               values_.size(), groups));
  }
  return values_;
}

PerGroup OptionType<PerGroup>::read(const Value& value) {
  if (value.is_list()) return PerGroup(OptionType<std::vector<double>>::read(value));
  if (!value.is_number()) detail::throw_wrong_type(value, name());
  return PerGroup(OptionType<double>::read(value));
}

Value OptionType<PerGroup>::write(const PerGroup& value) {
  if (value.is_list()) return OptionType<std::vector<double>>::write(value.values());
  return value.values().front();
}

Value OptionType<PerGroup>::schema() {
  Value either(Value::Map{});
  either["anyOf"] = Value(Value::List{OptionType<double>::schema(), OptionType<std::vector<double>>::schema()});
  return either;
}

}  // namespace levin
