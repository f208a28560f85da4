#pragma once

#include <cstdlib>
#include <string>

namespace levin {

/// The value of an environment variable; `otherwise` if it is not set or empty.
inline std::string environment_or(const char* name, const std::string& otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : otherwise;
}

/// The same; empty if it is not set.
inline std::string environment(const char* name) { return environment_or(name, ""); }

}  // namespace levin
