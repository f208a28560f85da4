#include "levin/core/config/masked_value.h"

#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

/// Of init_from: what stands in it are names of weights, such as cls_token, and no options.
constexpr const char* kNamesOfWeights = "rename";

Value masked_under(const std::string& name, Value value) {
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = masked_under(name, std::move(element));
  } else if (value.is_map()) {
    // A name within says more than the one outside: {password: …, attempts: 3}.
    for (auto& [key, part] : value.as_map()) {
      if (key == kNamesOfWeights) continue;
      const bool is_text = part.is_string() || part.is_list();
      part = masked_under(names_secret(key) || !is_text ? key : name, std::move(part));
    }
  } else if (value.is_string()) {
    const std::string& text = value.as_string();
    if (!names_secret(name)) return without_secrets(text);
    if (!is_no_secret(name, text)) return kMask;
  } else if (value.is_number() && names_secret(name) && !is_no_secret(name, "0")) {
    return kMask;
  }
  return value;
}

bool is_masked(const std::string& name, const std::string& text) { return text == kMask ? names_secret(name) : has_mask(text); }

void refuse_masked_under(const std::string& name, const std::string& path, const Value& value) {
  for (const Value& element : value.is_list() ? value.as_list() : Value::List{}) refuse_masked_under(name, path, element);
  for (const auto& [key, part] : value.is_map() ? value.as_map() : Value::Map{}) {
    if (key == kNamesOfWeights) continue;
    const std::string below = path.empty() ? key : format("{}.{}", path, key);
    refuse_masked_under(names_secret(key) || !names_secret(name) ? key : name, below, part);
  }
  if (!value.is_string() || !is_masked(name, value.as_string())) return;
  throw ConfigError(value.mark(),
                    format("{} is {}: levin writes no secrets into files. Give it again, with --{} or as ${{env:NAME}}",
                           quoted_text(path), quoted_text(value.as_string()), path));
}

}  // namespace

Value masked(Value value) { return masked_under("", std::move(value)); }

void refuse_masked(const Value& value) { refuse_masked_under("", "", value); }

}  // namespace levin
