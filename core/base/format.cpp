#include "levin/core/base/format.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include "levin/core/base/text.h"

namespace levin::detail {
namespace {

/// A float that is written as float_text() does it, unless the pattern says how.
struct Float {
  double value;
};

}  // namespace
}  // namespace levin::detail

template <>
struct fmt::formatter<levin::detail::Float> : fmt::formatter<double> {
  constexpr auto parse(fmt::format_parse_context& context) {
    has_specification_ = context.begin() != context.end() && *context.begin() != '}';
    return fmt::formatter<double>::parse(context);
  }
  auto format(levin::detail::Float number, fmt::format_context& context) const {
    if (has_specification_) return fmt::formatter<double>::format(number.value, context);
    return fmt::format_to(context.out(), "{}", levin::float_text(number.value));
  }

 private:
  bool has_specification_ = false;
};

namespace levin::detail {

std::string format_text(std::string_view pattern, const FormatArgument* arguments, std::size_t count) {
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  store.reserve(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::visit(
        [&](const auto& argument) {
          if constexpr (std::is_same_v<decltype(argument), const double&>) {
            store.push_back(Float{argument});
          } else {
            store.push_back(argument);
          }
        },
        arguments[i]);
  }
  return fmt::vformat(pattern, store);
}

}  // namespace levin::detail
