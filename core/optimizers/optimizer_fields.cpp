#include "levin/core/optimizers/optimizer_fields.h"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/options/option_type.h"

namespace levin {
namespace {

using AdamBetas = std::tuple<double, double>;

Value write_option(const AdamBetas& betas) { return Value(Value::List{std::get<0>(betas), std::get<1>(betas)}); }
template <class T>
Value write_option(const T& option) {
  return OptionType<T>::write(option);
}

void read_option(const Value& value, AdamBetas& betas) {
  const auto list = OptionType<std::vector<double>>::read(value);
  if (list.size() != 2) throw ConfigError("betas are not two numbers");
  betas = AdamBetas(list[0], list[1]);
}
template <class T>
void read_option(const Value& value, T& option) {
  option = OptionType<T>::read(value);
}

}  // namespace

Value option_values(const torch::optim::OptimizerOptions& options) {
  if (const auto* described = dynamic_cast<const GroupOptions*>(&options)) return described->values();
  Value values(Value::Map{});
  detail::visit_torch_options(options, [&](const char* name, const auto& option) { values[name] = write_option(option); });
  return values;
}

void set_option_values(torch::optim::OptimizerOptions& options, const Value& values) {
  if (auto* described = dynamic_cast<GroupOptions*>(&options)) {
    Value own = described->values();
    for (auto& [name, value] : own.as_map()) value = values.at(name);
    described->set_values(own);
    return;
  }
  detail::visit_torch_options(options, [&](const char* name, auto& option) { read_option(values.at(name), option); });
}

std::optional<Value> option_value(const torch::optim::OptimizerOptions& options, std::string_view name) {
  const Value all = option_values(options);
  const Value* const value = all.find(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

bool set_option_value(torch::optim::OptimizerOptions& options, std::string_view name, const Value& value) {
  Value all = option_values(options);
  Value* const place = all.find(name);
  if (place == nullptr) return false;
  *place = value;
  set_option_values(options, all);
  return true;
}

}  // namespace levin
