#include "levin/core/options/limit.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/format.h"

namespace levin {

std::int64_t Limit::of(std::int64_t total, const std::string& option_name) const {
  if (!is_share()) return std::min(batches(), total);
  const auto part = static_cast<std::int64_t>(std::floor(static_cast<double>(total) * share()));
  if (part == 0 && share() > 0.0 && total > 0) {
    throw ConfigError(format("trainer.{}: {} of {} batches is less than one batch. Take at least {}, or 0 to use none.",
                             option_name, share(), total, 1.0 / static_cast<double>(total)));
  }
  return part;
}

Limit OptionType<Limit>::read(const Value& value) {
  if (value.is_int()) {
    if (value.as_int() < 0) throw ConfigError(value.mark(), format("a number of batches is 0 or more, not {}", value.as_int()));
    return Limit(value.as_int());
  }
  if (!value.is_double()) detail::throw_wrong_type(value, name());
  const double share = value.as_double();
  if (!(share >= 0.0 && share <= 1.0)) {
    throw ConfigError(
        value.mark(),
        format("a share of batches is between 0.0 and 1.0, not {}; write a number of batches without a decimal point", share));
  }
  return Limit(share);
}

// JSON has one kind of number, so that 2.0, a share that is refused, passes for 2 here.
Value OptionType<Limit>::schema() {
  Value share(Value::Map{});
  share["maximum"] = 1;
  Value either = detail::any_of({detail::schema_of_type("integer"), std::move(share)});
  either["type"] = "number";
  either["minimum"] = 0;
  return either;
}

Value OptionType<Limit>::write(const Limit& limit) {
  if (limit.is_share()) return limit.share();
  return limit.batches();
}

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

FastDevRun OptionType<FastDevRun>::read(const Value& value) {
  if (value.is_bool()) return FastDevRun(value.as_bool());
  if (!value.is_int()) detail::throw_wrong_type(value, name());
  return FastDevRun(value.as_int());
}

Value OptionType<FastDevRun>::write(const FastDevRun& run) {
  return run.batches() <= 1 ? Value(static_cast<bool>(run)) : Value(run.batches());
}

Value OptionType<FastDevRun>::schema() {
  return detail::any_of({detail::schema_of_type("boolean"), detail::schema_of_type("integer")});
}

}  // namespace levin
