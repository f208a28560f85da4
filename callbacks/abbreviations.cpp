#include "levin/callbacks/abbreviations.h"

#include "levin/core/base/format.h"

namespace levin::detail {

std::string abbreviated_count(std::int64_t count) {
  if (count < 1000) return std::to_string(count);
  constexpr char kUnits[] = {'K', 'M', 'B', 'T'};
  double scaled = static_cast<double>(count);
  std::size_t unit = 0;
  for (scaled /= 1000; scaled >= 1000 && unit + 1 < sizeof kUnits; scaled /= 1000) ++unit;
  if (scaled < 100) return format("{:.1f} {}", scaled, kUnits[unit]);
  std::string digits = std::to_string(static_cast<std::int64_t>(scaled));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return format("{} {}", digits, kUnits[unit]);
}

std::string short_type_name(const std::string& demangled) {
  std::string name = demangled.substr(0, demangled.find('<'));
  const std::size_t colon = name.rfind("::");
  if (colon != std::string::npos) name = name.substr(colon + 2);
  const std::string suffix = "Impl";
  if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

}  // namespace levin::detail
