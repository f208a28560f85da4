#pragma once

#include <functional>
#include <string>

#include "levin/core/base/format.h"
#include "levin/core/config/value.h"

namespace levin {

/// Calls with each leaf of a tree of maps, and its path: "model.lr".
inline void each_leaf(const Value& value, const std::string& path,
                      const std::function<void(const std::string& path, const Value& leaf)>& call) {
  if (!value.is_map()) return call(path, value);
  for (const auto& [name, part] : value.as_map()) each_leaf(part, path.empty() ? name : format("{}.{}", path, name), call);
}

}  // namespace levin
