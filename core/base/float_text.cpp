#include "levin/core/base/float_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

namespace levin {

std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::string text;
  append_float(text, value);
  return text;
}

void append_float(std::string& text, double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  const std::string_view number(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  text += number;
  if (number.find_first_of(".einf") == std::string_view::npos) text += ".0";
}

std::optional<double> parse_float(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return value;
  // Out of range; from_chars does not tell on which side.
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  stream >> value;
  const double infinity = std::numeric_limits<double>::infinity();
  if (stream.fail()) return text[0] == '-' ? -infinity : infinity;
  return value;
}

}  // namespace levin
