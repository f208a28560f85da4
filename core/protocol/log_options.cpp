#include "levin/core/protocol/log_options.h"

#include <string_view>

#include "levin/core/base/format.h"

namespace levin {

const char* reduce_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::kMean:
      return "mean";
    case Reduce::kSum:
      return "sum";
    case Reduce::kMin:
      return "min";
    case Reduce::kMax:
      return "max";
  }
  return "unknown";
}

std::string CallSite::str() const {
  const std::string_view path = file;
  if (path.empty()) return "an unknown place";
  const auto slash = path.find_last_of("/\\");
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return format("{}:{}", name, line);
}

}  // namespace levin
