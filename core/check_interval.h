#pragma once

#include <optional>
#include <string>

#include "levin/core/limit.h"

namespace levin {

/// When validation runs in training: after so many batches, after a share of an epoch, or each time that a span of time has
/// passed since the validation before.
class CheckInterval {
 public:
  CheckInterval(int batches) : limit_(batches) {}
  CheckInterval(std::int64_t batches) : limit_(batches) {}
  CheckInterval(double share) : limit_(share) {}
  CheckInterval(const Limit& limit) : limit_(limit) {}
  /// "DD:HH:MM:SS". Throws ConfigError on anything else.
  CheckInterval(const char* time) : CheckInterval(std::string(time)) {}
  CheckInterval(const std::string& time);

  bool is_time() const { return seconds_.has_value(); }
  double seconds() const { return seconds_.value(); }
  /// Called: when it is no time.
  const Limit& limit() const { return limit_; }
  /// As it was written, when it is a time.
  const std::string& time() const { return time_; }

 private:
  Limit limit_{1.0};
  std::optional<double> seconds_;
  std::string time_;
};

template <>
struct OptionType<CheckInterval> {
  static CheckInterval read(const Value& value);
  static Value write(const CheckInterval& interval);
  static std::string name() { return "int, float or DD:HH:MM:SS"; }
  static Value schema();
};

}  // namespace levin
