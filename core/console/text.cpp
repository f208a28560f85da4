#include "levin/core/console/text.h"

#include <algorithm>

namespace levin {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace levin
