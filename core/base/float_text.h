#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace levin {

/// A float as YAML writes it: the shortest text that reads back to the same bits and is not taken for an int ("1.0", "1e-05",
/// ".inf", "-.inf", ".nan").
std::string float_text(double value);

/// Appends the shortest text that reads back to the same bits and is not taken for an int: "1.0", "1e-05", "inf", "nan".
void append_float(std::string& text, double value);

/// The float that the whole of `text` is ("-1.5e3", "inf", "nan"; no sign '+', no blanks), or nothing. What is too small for a
/// float becomes 0, what is too large an infinity, as in C and Python.
std::optional<double> parse_float(std::string_view text);

}  // namespace levin
