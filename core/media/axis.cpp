#include "levin/core/media/axis.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "levin/core/base/format.h"

namespace levin {
namespace {

/// The least of 1, 2 and 5 times a power of ten that is not below.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step) return factor * power;
  }
  return 10 * power;
}

/// With as many decimals as the step between ticks needs.
std::string tick_label(double value, double step) {
  const double largest = std::max(std::abs(value), step);
  if (largest >= 1e6 || step < 1e-4) return format("{:.4g}", std::abs(value) < step / 2 ? 0.0 : value);
  const int places = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::array<char, 64> text{};
  const double shown = std::abs(value) < step / 2 ? 0.0 : value;
  return {text.data(), std::to_chars(text.begin(), text.end(), shown, std::chars_format::fixed, places).ptr};
}

}  // namespace

double Axis::place_of(double value) const {
  // Halves, since the distance of two numbers may be more than a number can be.
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

Axis axis_for(double least, double greatest, int most_ticks) {
  const double size = std::max(std::abs(least), std::abs(greatest));
  // Numbers that differ by less than the resolution of a step between ticks are equal.
  if (!(greatest - least > size * 1e-9)) {
    const double around = size > 0 ? size / 2 : 1;
    least -= around;
    greatest += around;
  }
  Axis axis{.low = least, .high = greatest};
  const double step = round_step((greatest / 2 - least / 2) / std::max(1, most_ticks - 1) * 2);
  const double first = std::ceil(least / step - 1e-9);
  for (int tick = 0; tick <= most_ticks; ++tick) {
    const double value = (first + tick) * step;
    if (!std::isfinite(value) || value > greatest + step * 1e-9) break;
    axis.ticks.push_back({value, tick_label(value, step)});
  }
  return axis;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const bool is_count = value == std::floor(value) && std::abs(value) < 1e6;
  return is_count ? format("{:.0f}", value) : format("{:.3g}", value);
}

}  // namespace levin
