#pragma once

#include <cstdint>

#include "levin/core/export.h"

namespace levin {

/// Where a call stands in the user's code: what std::source_location is, which clang 14 does not have. As a default argument,
/// `SourceLocation where = SourceLocation::current()`, it is the place of the call.
class LEVIN_API SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return SourceLocation(file, line);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr std::uint32_t line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, std::uint32_t line) : file_(file), line_(line) {}

  const char* file_;
  std::uint32_t line_;
};

}  // namespace levin
