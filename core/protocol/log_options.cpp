#include "levin/core/protocol/log_options.h"

#include <array>
#include <string_view>

#include "levin/core/base/format.h"

namespace levin {

const char* reduce_name(Reduce reduce) {
  constexpr std::array<const char*, kReductions> kNames = {"mean", "sum", "min", "max"};
  const auto index = static_cast<std::size_t>(reduce);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string CallSite::str() const {
  const std::string_view path = file;
  if (path.empty()) return "an unknown place";
  const auto slash = path.find_last_of("/\\");
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return format("{}:{}", name, line);
}

}  // namespace levin
