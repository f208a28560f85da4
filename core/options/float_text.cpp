#include "levin/core/options/float_text.h"

#include <spdlog/fmt/fmt.h>

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
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string fixed_text(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

std::string digits_text(double value, int digits) { return fmt::format("{:.{}g}", value, digits); }

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
