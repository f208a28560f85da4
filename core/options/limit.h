#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "levin/core/options/option_type.h"

namespace levin {

/// A number of batches, or a share of them: 1 is one batch, 1.0 is all.
class Limit {
 public:
  Limit(int batches) : value_(static_cast<std::int64_t>(batches)) {}
  Limit(std::int64_t batches) : value_(batches) {}
  Limit(double share) : value_(share) {}
  bool is_share() const { return std::holds_alternative<double>(value_); }
  std::int64_t batches() const { return std::get<std::int64_t>(value_); }
  double share() const { return std::get<double>(value_); }
  /// How many of `total` batches: min(batches, total), or share of total rounded down. Throws ConfigError, naming the option,
  /// when a share above 0 leaves no batch of a loader that has some.
  std::int64_t of(std::int64_t total, const std::string& option_name) const;
  friend bool operator==(const Limit&, const Limit&) = default;

 private:
  std::variant<std::int64_t, double> value_;
};

template <>
struct OptionType<Limit> {
  static Limit read(const Value& value);
  static Value write(const Limit& limit);
  static std::string name() { return "int or float"; }
  static Value schema();
};

}  // namespace levin
