#include "levin/core/config/lr_expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr std::size_t kLongestExpression = 1000;
constexpr int kDeepestExpression = 50;

/// Python's: with the sign of the divisor.
double modulus(double left, double right) {
  const double rest = std::fmod(left, right);
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

using OfStep = std::function<double(double step)>;
using Unary = double (*)(double);
using Binary = double (*)(double, double);

struct Operator {
  std::string_view sign;
  int precedence;
  Binary apply;
};
// Of two with a common prefix the longer one first. Signs and powers bind tighter than all of these: parse_operand().
constexpr int kLoosest = 0, kTightest = 1;
constexpr Operator kOperators[] = {{"+", kLoosest, [](double left, double right) { return left + right; }},
                                   {"-", kLoosest, [](double left, double right) { return left - right; }},
                                   {"//", kTightest, [](double left, double right) { return std::floor(left / right); }},
                                   {"/", kTightest, [](double left, double right) { return left / right; }},
                                   {"*", kTightest, [](double left, double right) { return left * right; }},
                                   {"%", kTightest, modulus}};

/// A function of one number, or of two and more.
struct Function {
  std::string_view name;
  Unary of_one;
  Binary of_several;
};
constexpr Function kFunctions[] = {{"min", nullptr, [](double left, double right) { return std::min(left, right); }},
                                   {"max", nullptr, [](double left, double right) { return std::max(left, right); }},
                                   {"sqrt", [](double value) { return std::sqrt(value); }, nullptr},
                                   {"exp", [](double value) { return std::exp(value); }, nullptr},
                                   {"cos", [](double value) { return std::cos(value); }, nullptr}};

OfStep combined(Binary apply, OfStep left, OfStep right) {
  return [apply, left = std::move(left), right = std::move(right)](double step) { return apply(left(step), right(step)); };
}
OfStep combined(Unary apply, OfStep value) {
  return [apply, value = std::move(value)](double step) { return apply(value(step)); };
}

/// By recursive descent.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  OfStep parse() {
    if (text_.size() > kLongestExpression) {
      throw ConfigError(
          format("an expression may have {} characters at most, and this one has {}", kLongestExpression, text_.size()));
    }
    OfStep all = parse_terms(kLoosest);
    if (!rest().empty()) refuse("an operator");
    return all;
  }

 private:
  OfStep parse_terms(int precedence) {
    const auto parse_term = [&] { return precedence == kTightest ? parse_operand() : parse_terms(precedence + 1); };
    OfStep value = parse_term();
    const auto follows = [&](const Operator& each) { return each.precedence == precedence && take(each.sign); };
    for (;;) {
      const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators), follows);
      if (found == std::end(kOperators)) return value;
      value = combined(found->apply, std::move(value), parse_term());
    }
  }

  /// -2 ** 2 is -(2 ** 2), 2 ** -1 a half, and 2 ** 3 ** 2 is 2 ** 9.
  OfStep parse_operand() {
    if (++depth_ > kDeepestExpression) {
      throw ConfigError(format("an expression may have {} levels at most", kDeepestExpression));
    }
    OfStep value;
    if (take("-")) {
      value = combined([](double positive) { return -positive; }, parse_operand());
    } else if (take("+")) {
      value = parse_operand();
    } else {
      value = parse_value();
      if (take("**")) {
        value = combined([](double base, double power) { return std::pow(base, power); }, std::move(value), parse_operand());
      }
    }
    --depth_;
    return value;
  }

  OfStep parse_value() {
    if (take("(")) {
      OfStep value = parse_terms(kLoosest);
      expect(")");
      return value;
    }
    const std::string_view rest = this->rest();
    if (rest.empty()) refuse("a value");
    double number = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const bool is_number = std::isdigit(static_cast<unsigned char>(rest.front())) != 0 || rest.front() == '.';
    if (is_number && problem == std::errc()) {
      place_ += static_cast<std::size_t>(end - rest.data());
      return [number](double) { return number; };
    }
    const auto is_in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    const auto length = std::find_if_not(rest.begin(), rest.end(), is_in_name) - rest.begin();
    const std::string_view name = rest.substr(0, static_cast<std::size_t>(length));
    const auto* function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Function& each) { return each.name == name; });
    const bool is_step = name == "epoch" || name == "step";
    if (!is_step && name != "pi" && function == std::end(kFunctions)) {
      refuse("a number, epoch, step, pi, or one of the functions min, max, sqrt, exp, cos");
    }
    place_ += name.size();
    if (is_step) return [](double step) { return step; };
    if (name == "pi") return [](double) { return std::numbers::pi; };
    return parse_call(*function);
  }

  OfStep parse_call(const Function& function) {
    expect("(");
    OfStep value = parse_terms(kLoosest);
    if (function.of_one != nullptr) {
      value = combined(function.of_one, std::move(value));
    } else {
      expect(",");
      do {
        value = combined(function.of_several, std::move(value), parse_terms(kLoosest));
      } while (take(","));
    }
    expect(")");
    return value;
  }

  /// The rest, from the next character that is not blank.
  std::string_view rest() {
    place_ = std::min(text_.find_first_not_of(" \t\n", place_), text_.size());
    return text_.substr(place_);
  }
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    place_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(quoted_text(token));
  }
  [[noreturn]] void refuse(std::string_view expected) {
    const std::string found = rest().empty() ? "its end" : quoted_text(rest(), 20);
    throw ConfigError(format("{} is not an expression: at character {} there is {} instead of {}", quoted_text(text_),
                             place_ + 1, found, expected));
  }

  std::string_view text_;
  std::size_t place_ = 0;
  int depth_ = 0;
};

}  // namespace

LrExpression::LrExpression(std::string_view text) : text_(text), value_(ExpressionParser(text).parse()) {}

double LrExpression::operator()(std::int64_t step) const {
  const double value = value_(static_cast<double>(step));
  if (!std::isfinite(value)) {
    throw MisuseError(format("The expression {} of a learning rate is {} at step {}: write one that has a value at every step.",
                             quoted_text(text_), float_text(value), step));
  }
  return value;
}

LrExpression OptionType<LrExpression>::read(const Value& value) {
  if (!value.is_number() && !value.is_string()) detail::throw_wrong_type(value, name());
  try {
    return LrExpression(std::string_view(value.is_string() ? value.as_string() : float_text(value.as_double())));
  } catch (const ConfigError& error) {
    throw ConfigError(value.mark(), error.message());
  }
}

Value OptionType<LrExpression>::schema() {
  return detail::any_of({OptionType<std::string>::schema(), OptionType<double>::schema()});
}

}  // namespace levin
