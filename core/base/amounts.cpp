#include "levin/core/base/amounts.h"

#include <array>
#include <cstddef>

#include "levin/core/base/format.h"

namespace levin {

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? format("{:.2f} ms", seconds * 1e3) : format("{:.2f} s", seconds);
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kFourDigits = 999.5;
  std::size_t unit = 0;
  for (; bytes >= kFourDigits && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace levin
