#pragma once

#include <cstddef>
#include <string>

#include "levin/core/options/value.h"

namespace levin {

/// The longest key, in bytes, that stands on a line with its value: YAML readers look no further than some hundred characters
/// for the colon. A longer one is written with "? ".
inline constexpr std::size_t kLongestSimpleKey = 128;

/// The value as a YAML document in block style, ending with a line break. Reading it back gives an equal value, with YAML 1.2
/// readers and with YAML 1.1 ones such as PyYAML: floats keep a point and their exact digits ("1.0e-05"), strings that could be
/// taken for something else ("no", "1_000", "2020-01-01", "") are quoted, and strings that are no valid UTF-8 become
/// `!!binary`. The order of a map's keys is kept.
std::string to_yaml(const Value& value);

}  // namespace levin
