#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// A function of a schedule's step, such as "0.95 ** epoch" or "min(1, (step + 1) / 100)", with Python's operators, their
/// precedence and their values: + - * / // % ** and parentheses; the functions min, max, sqrt, exp, cos; the names pi, and
/// epoch or step, which both mean the step.
class LEVIN_API LrExpression {
 public:
  /// Throws ConfigError, with the character, for a malformed expression, and for one of more than 1000 characters or 50 levels.
  explicit LrExpression(std::string_view text);
  LrExpression(const char* text) : LrExpression(std::string_view(text)) {}
  const std::string& text() const { return text_; }
  /// Throws MisuseError when the value is not finite, such as 1 / epoch at step 0.
  double operator()(std::int64_t step) const;

 private:
  std::string text_;
  std::function<double(double step)> value_;
};

/// The option also takes a number.
template <>
struct LEVIN_API OptionType<LrExpression> {
  static LrExpression read(const Value& value);
  static Value write(const LrExpression& expression) { return expression.text(); }
  static std::string name() { return "number or expression"; }
  static Value schema();
};

}  // namespace levin
