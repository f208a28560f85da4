#pragma once

#include <chrono>
#include <variant>

#include "levin/core/options/duration.h"
#include "levin/core/options/limit.h"

namespace levin {

/// When validation runs in training: after so many batches, after a share of an epoch, or each time that a span of time has
/// passed since the validation before.
class CheckInterval {
 public:
  CheckInterval(int batches) : interval_(Limit(batches)) {}
  CheckInterval(std::int64_t batches) : interval_(Limit(batches)) {}
  CheckInterval(double share) : interval_(Limit(share)) {}
  CheckInterval(const Limit& limit) : interval_(limit) {}
  template <class Rep, class Period>
  CheckInterval(std::chrono::duration<Rep, Period> time) : interval_(Duration(time)) {}

  bool is_time() const { return std::holds_alternative<Duration>(interval_); }
  Duration time() const { return std::get<Duration>(interval_); }
  /// Called: when it is no time.
  const Limit& limit() const { return std::get<Limit>(interval_); }

 private:
  std::variant<Limit, Duration> interval_;
};

template <>
struct OptionType<CheckInterval> {
  static CheckInterval read(const Value& value);
  static Value write(const CheckInterval& interval);
  static std::string name() { return "int, float or DD:HH:MM:SS"; }
  static Value schema();
};

}  // namespace levin
