#pragma once

#include <string>

namespace levin {

/// A float as YAML writes it: the shortest text that reads back to the same bits and is not taken for an int ("1.0", "1e-05",
/// ".inf", "-.inf", ".nan").
std::string float_text(double value);

}  // namespace levin
