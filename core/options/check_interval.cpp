#include "levin/core/options/check_interval.h"

namespace levin {

CheckInterval OptionType<CheckInterval>::read(const Value& value) {
  if (!value.is_string()) return OptionType<Limit>::read(value);
  return OptionType<Duration>::read(value);
}

Value OptionType<CheckInterval>::write(const CheckInterval& interval) {
  return interval.is_time() ? OptionType<Duration>::write(interval.time()) : OptionType<Limit>::write(interval.limit());
}

Value OptionType<CheckInterval>::schema() {
  return detail::any_of({OptionType<Limit>::schema(), OptionType<Duration>::schema()});
}

}  // namespace levin
