#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace levin {

/// What this host calls itself.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

}  // namespace levin
