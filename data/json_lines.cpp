#include "levin/data/json_lines.h"

#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"

namespace levin {

Pipeline<Value> from_json_lines(const std::vector<std::string>& patterns) {
  return from_lines(patterns)
      .filter([](const std::string& line) { return line.find_first_not_of(" \t") != std::string::npos; })
      .map([](const std::string& line) { return parse_json(line); });
}

}  // namespace levin
