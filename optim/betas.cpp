#include "levin/optim/optimizers.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

Betas OptionType<Betas>::read(const Value& value) {
  const auto betas = OptionType<std::vector<double>>::read(value);
  const auto valid = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  if (betas.size() != 2 || !valid(betas[0]) || !valid(betas[1])) {
    throw ConfigError(value.mark(), "betas must be two numbers, each at least 0 and below 1");
  }
  return {betas[0], betas[1]};
}

Value OptionType<Betas>::schema() {
  Value beta = detail::schema_of_type("number");
  beta["minimum"] = 0;
  beta["exclusiveMaximum"] = 1;
  Value two = detail::schema_of_type("array");
  two["items"] = std::move(beta);
  two["minItems"] = 2;
  two["maxItems"] = 2;
  return two;
}

std::string detail::list_name(std::size_t length) { return format("list of {}", length); }

void detail::throw_other_length(const Value& value, std::size_t length) {
  throw ConfigError(value.mark(), format("must be a {}, got {}", list_name(length), describe(value)));
}

}  // namespace levin
