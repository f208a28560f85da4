#pragma once

#include <cstdlib>
#include <string_view>

namespace levin::test {

/// True when tests run each matrix as a whole (LEVIN_MATRIX=all), rather than the sample that `make test` runs.
inline bool is_whole_matrix() {
  const char* const asked = std::getenv("LEVIN_MATRIX");
  return asked != nullptr && std::string_view(asked) == "all";
}

}  // namespace levin::test
