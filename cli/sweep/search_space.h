#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// The keys of the configuration that a trial sets, each with a text that is read as YAML: as on the command line.
using Assignment = std::vector<std::pair<std::string, std::string>>;

/// Some values, written as YAML: of a grid, or to choose from.
struct Choice {
  std::vector<std::string> texts;
};
/// Numbers from `low` to `high`, both included.
struct Uniform {
  double low = 0;
  double high = 1;
};
/// The same, of which each order of magnitude is as likely as another. Both are above 0.
struct LogUniform {
  double low = 0;
  double high = 1;
};
struct UniformInt {
  std::int64_t low = 0;
  std::int64_t high = 1;
};
using Distribution = std::variant<Choice, Uniform, LogUniform, UniformInt>;

/// The most trials of a sweep: their list is in memory and in a file that is rewritten after each.
inline constexpr std::int64_t kMostTrials = 100'000;

/// What a sweep tries.
struct SearchSpace {
  std::vector<std::pair<std::string, Choice>> grid;          ///< keys of which all combinations are tried
  std::vector<std::pair<std::string, Distribution>> random;  ///< keys whose values are drawn

  /// Adds `KEY=VALUE,VALUE`. Commas within brackets and quotes part nothing. Throws ConfigError.
  void add_grid(const std::string& text);
  /// Adds `KEY=log:LOW..HIGH`, or with uniform, int or choice:VALUE,VALUE. Throws ConfigError.
  void add_distribution(const std::string& text);
  /// Adds what the map under `sweep:` of a YAML file says: a key of the configuration each, with `grid: [VALUE, …]`,
  /// `choice: [VALUE, …]`, `log: [LOW, HIGH]`, `uniform: [LOW, HIGH]` or `int: [LOW, HIGH]`. Throws ConfigError.
  void add_file(const std::filesystem::path& file);

  /// Each key with its kind and what belongs to it: `["log", [1e-5, 0.1]]`, `["choice", ["a", "b"]]`.
  Value written() const;
  /// The trials: for each of the `samples` draws, each combination of the grid. The same seed gives the same draws on every
  /// machine, and fewer samples give the first of them. Throws ConfigError for more than kMostTrials.
  std::vector<Assignment> trials(std::int64_t samples, std::uint64_t seed) const;

 private:
  void check_new(const std::string& key, const Mark& mark) const;
  void check_count(std::int64_t samples) const;
};

}  // namespace levin::cli
