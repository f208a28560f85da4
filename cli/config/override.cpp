#include "levin/cli/config/override.h"

#include "levin/core/base/format.h"

namespace levin::cli {

std::string Override::name() const {
  if (!variable.empty()) return "environment: " + variable;
  constexpr std::size_t kMostShown = 200;
  const bool is_long = key.size() > kMostShown;
  return format("{}{}{}", of_program ? "override: " : "command line: --", key.substr(0, kMostShown),
                is_long  ? "…"
                : append ? "+"
                         : "");
}

std::string Override::written() const {
  return variable.empty() ? format("{}{}{}={}", of_program ? "" : "--", key, append ? "+" : "", text)
                          : format("{}={}", variable, text);
}

}  // namespace levin::cli
