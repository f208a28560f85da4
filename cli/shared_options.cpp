#include "levin/cli/shared_options.h"

#include "levin/core/base/format.h"

namespace levin::cli {
namespace {

bool is_same(const Value& left, const Value& right) {
  return left == right || (left.is_number() && right.is_number() && left.as_double() == right.as_double());
}

std::string with_place(const Value& value) {
  const std::string place = value.mark().str();
  return format("{} ({})", describe(value), place.empty() ? "the default" : place);
}

}  // namespace

std::vector<std::string> different_shared_options(const Value& model, const Value& data) {
  std::vector<std::string> lines;
  if (!model.is_map()) return lines;
  for (const auto& [name, of_model] : model.as_map()) {
    const Value* of_data = data.find(name);
    if (of_data == nullptr || is_same(of_model, *of_data)) continue;
    if (of_model.mark().str().empty() && of_data->mark().str().empty()) continue;
    lines.push_back(
        format("model and data both have an option {}, each its own: {} for the model, {} for the data. For one value in both, "
               "write ${{data.{}}} for the model's.",
               name, with_place(of_model), with_place(*of_data), name));
  }
  return lines;
}

}  // namespace levin::cli
