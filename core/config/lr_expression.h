#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// A number as an expression of the step of a schedule, such as "0.95 ** epoch" or "min(1, (step + 1) / 100)", with Python's
/// operators, their precedence and their values: + - * / // % ** and parentheses; the functions min, max, sqrt, exp, cos; the
/// names pi, and epoch or step, which both are the number of the step.
class LEVIN_API LrExpression {
 public:
  /// Throws ConfigError, with the character, for what is no expression, and for one of more than 1000 characters or 50 levels.
  explicit LrExpression(std::string_view text);
  LrExpression(const char* text) : LrExpression(std::string_view(text)) {}
  const std::string& text() const { return text_; }
  /// Throws MisuseError where there is no finite value, as of 1 / epoch at step 0.
  double operator()(std::int64_t step) const;

 private:
  std::string text_;
  std::function<double(double step)> value_;
};

/// An option that is constant may be given as a number, too.
template <>
struct LEVIN_API OptionType<LrExpression> {
  static LrExpression read(const Value& value);
  static Value write(const LrExpression& expression) { return expression.text(); }
  static std::string name() { return "number or expression"; }
  static Value schema();
};

}  // namespace levin
