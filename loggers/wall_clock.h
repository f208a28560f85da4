#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace levin {

// The time of day, for files and services of loggers.

/// Seconds since 1970.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Milliseconds since 1970.
inline std::int64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// Local time, in a form of strftime(): "%F %T" gives "2026-11-24 23:55:01".
inline std::string local_time(const char* form) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 64> text{};
  return {text.data(), strftime(text.data(), text.size(), form, &parts)};
}

}  // namespace levin
