#include "levin/core/check_interval.h"

#include "levin/core/options/duration.h"

namespace levin {

CheckInterval::CheckInterval(const std::string& time)
    : seconds_(detail::parse_duration(time, "trainer.val_check_interval")), time_(time) {}

CheckInterval OptionType<CheckInterval>::read(const Value& value) {
  if (!value.is_string()) return OptionType<Limit>::read(value);
  try {
    return CheckInterval(value.as_string());
  } catch (const ConfigError& error) {
    throw ConfigError(value.mark(), error.message());
  }
}

Value OptionType<CheckInterval>::write(const CheckInterval& interval) {
  return interval.is_time() ? Value(interval.time()) : OptionType<Limit>::write(interval.limit());
}

Value OptionType<CheckInterval>::schema() { return detail::any_of({OptionType<Limit>::schema(), detail::duration_schema()}); }

}  // namespace levin
