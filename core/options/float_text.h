#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace levin {

/// A float as YAML writes it: the shortest text that reads back to the same bits and is not taken for an int ("1.0", "1e-05",
/// ".inf", "-.inf", ".nan").
std::string float_text(double value);

/// With so many decimals: "0.125" of three. Not finite: "nan", "inf".
std::string fixed_text(double value, int decimals);

/// With at most so many significant digits: "0.125", "1e-05". Not finite: "nan", "inf".
std::string digits_text(double value, int digits);

/// The float that the whole of `text` is ("-1.5e3", "inf", "nan"; no sign '+', no blanks), or nothing. What is too small for a
/// float becomes 0, what is too large an infinity, as in C and Python.
std::optional<double> parse_float(std::string_view text);

}  // namespace levin
