#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace levin {

// What is believed of what another rank says before it has arrived.

/// The most bytes of new metrics that a rank may announce: some hundred thousand keys.
inline constexpr std::uint64_t kMostNewMetricsBytes = std::uint64_t{64} << 20;
/// The text in a field of fixed size that another rank has filled: up to its end, or the field's.
inline std::string_view text_in(std::span<const char> field) {
  const std::string_view text(field.data(), field.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace levin
