#pragma once

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace levin::test {

/// The rooms of the house, in the order of cmake/LevinRoom.cmake.
inline const std::vector<std::string>& rooms() {
  static const std::vector<std::string> names = [] {
    std::istringstream text(LEVIN_ROOMS);
    return std::vector<std::string>{std::istream_iterator<std::string>(text), {}};
  }();
  return names;
}

}  // namespace levin::test
