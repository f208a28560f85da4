#pragma once

#include <cstddef>

namespace levin {

/// So many errors of one configuration are looked for; nobody reads more, and a hostile one may have a million.
inline constexpr std::size_t kMostConfigErrors = 100;

}  // namespace levin
