#include "levin/callbacks/checkpoint_name.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

/// `is_counter`: a whole number, unless the format asks for a fraction.
std::string write_number(double value, bool is_counter, const std::string& format) {
  const auto ends_in = [&](std::string_view letters) { return !format.empty() && letters.find(format.back()) != letters.npos; };
  const bool has_fraction = ends_in("eEfFgGaA%") || format.find('.') != std::string::npos;
  const bool fits_integer = std::abs(value) < 0x1p63;
  if (ends_in("bdoxXn") && !fits_integer) return fmt::format("{}", value);
  if (ends_in("bdoxXn") || (is_counter && fits_integer && !has_fraction))
    return fmt::format(fmt::runtime("{:" + format + "}"), std::llround(is_counter ? std::trunc(value) : value));
  std::string text = fmt::format(fmt::runtime("{:" + format + "}"), value);
  // The shortest form of a whole number is "1" here and "1.0" in Python.
  if (format.empty() && std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// File systems take names of up to 255 bytes, and padding to a billion would take that much memory.
bool has_large_number(const std::string& format) {
  constexpr int kLongestName = 255;
  int number = 0;
  for (const char c : format) {
    number = c >= '0' && c <= '9' ? number * 10 + (c - '0') : 0;
    if (number > kLongestName) return true;
  }
  return false;
}

}  // namespace

std::string checkpoint_name(const std::string& pattern, bool auto_insert_metric_name, std::int64_t epoch, std::int64_t step,
                            const MetricMap& metrics) {
  const auto fail = [&pattern](const std::string& what) {
    throw ConfigError(
        format("Checkpoint file name {}: {}. Write fields like {{val_loss:.2f}}.", quoted_text(pattern, 300), what));
  };
  std::string name;
  const auto add_field = [&](const std::string& field, const std::string& field_format) {
    if (field.empty()) fail("a field has no name");
    const std::string wrong_format = format("the format {} is not understood", quoted_text(field_format));
    if (has_large_number(field_format)) fail(wrong_format + " (its width or precision is above 255)");
    // A number as a character would be any byte, NUL and '/' too.
    if (field_format.ends_with('c')) fail(wrong_format + " (c would make a character of a number)");
    try {
      write_number(0, /*is_counter=*/true, field_format);
      write_number(0.5, /*is_counter=*/false, field_format);
    } catch (const fmt::format_error& error) {
      fail(format("{} ({})", wrong_format, error.what()));
    }
    if (auto_insert_metric_name) name += field + "=";
    const auto metric = metrics.find(field);
    const bool is_counter = field == "epoch" || field == "step" || metric == metrics.end();
    const std::int64_t counter = field == "epoch" ? epoch : field == "step" ? step : 0;
    name += write_number(metric == metrics.end() ? static_cast<double>(counter) : metric->second, is_counter, field_format);
  };
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c != '{' && c != '}') {
      name += c;
    } else if (at + 1 < pattern.size() && pattern[at + 1] == c) {
      name += c;
      ++at;
    } else if (c == '}') {
      fail("a '}' has no '{'");
    } else {
      const std::size_t end = pattern.find('}', at);
      if (end == std::string::npos) fail("a '{' has no '}'");
      const std::string inside = pattern.substr(at + 1, end - at - 1);
      const std::size_t colon = inside.find(':');
      add_field(inside.substr(0, colon), colon == std::string::npos ? "" : inside.substr(colon + 1));
      at = end;
    }
  }
  return name;
}

}  // namespace levin
