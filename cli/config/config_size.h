#pragma once

#include <cstddef>

#include "levin/core/base/error.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// What a configuration grows to, counted where values are added to it: by reading, by aliases and `${…}`, and by the key of an
/// override. It is more than any run needs, and little enough that whatever goes through it ends soon.
class ConfigSize {
 public:
  /// A file's text, and all that references put into others.
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
  static constexpr std::size_t kMostValues = 200'000;
  static constexpr std::size_t kMostLevels = 100;

  /// Counts a value with all in it, within `level` lists and maps. Throws ConfigError with `mark` when that is too much.
  void add(const Value& value, std::size_t level, const Mark& mark);

 private:
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace levin::cli
