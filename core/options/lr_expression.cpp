#include "levin/core/options/lr_expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

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

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

}  // namespace

/// A parser by recursive descent, a function for each level of precedence.
class LrExpressionParser {
 public:
  LrExpressionParser(std::string_view text, std::vector<LrExpression::Instruction>& program) : text_(text), program_(program) {}

  void parse() {
    if (text_.size() > kLongestExpression) {
      throw ConfigError(
          format("an expression may have {} characters at most, and this one has {}", kLongestExpression, text_.size()));
    }
    parse_sum();
    if (!rest().empty()) refuse("an operator");
  }

 private:
  using Unary = LrExpression::Unary;
  using Binary = LrExpression::Binary;

  struct Level {
    explicit Level(LrExpressionParser& owner) : parser(owner) {
      if (++parser.depth_ > kDeepestExpression) {
        throw ConfigError(format("an expression may have {} levels at most", kDeepestExpression));
      }
    }
    ~Level() { --parser.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    LrExpressionParser& parser;
  };

  void parse_sum() {
    parse_product();
    for (;;) {
      if (take("+")) {
        parse_product();
        program_.emplace_back(Binary([](double left, double right) { return left + right; }));
      } else if (take("-")) {
        parse_product();
        program_.emplace_back(Binary([](double left, double right) { return left - right; }));
      } else {
        return;
      }
    }
  }

  void parse_product() {
    parse_sign();
    for (;;) {
      Binary operation = nullptr;
      if (rest().starts_with("**")) return;
      if (take("*")) {
        operation = [](double left, double right) { return left * right; };
      } else if (take("//")) {
        operation = [](double left, double right) { return std::floor(left / right); };
      } else if (take("/")) {
        operation = [](double left, double right) { return left / right; };
      } else if (take("%")) {
        operation = modulus;
      } else {
        return;
      }
      parse_sign();
      program_.emplace_back(operation);
    }
  }

  void parse_sign() {
    const Level level(*this);
    if (take("-")) {
      parse_sign();
      program_.emplace_back(Unary([](double value) { return -value; }));
    } else if (take("+")) {
      parse_sign();
    } else {
      parse_power();
    }
  }

  /// -2 ** 2 is -(2 ** 2), 2 ** -1 a half, and 2 ** 3 ** 2 is 2 ** 9.
  void parse_power() {
    parse_value();
    if (!take("**")) return;
    parse_sign();
    program_.emplace_back(Binary([](double left, double right) { return std::pow(left, right); }));
  }

  void parse_value() {
    if (take("(")) {
      parse_sum();
      expect(")");
      return;
    }
    const std::string_view rest = this->rest();
    if (rest.empty()) refuse("a value");
    if (is_digit(rest.front()) || rest.front() == '.') return parse_number();
    const auto end =
        std::find_if_not(rest.begin(), rest.end(), [](char letter) { return is_letter(letter) || is_digit(letter); });
    const auto name = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    if (name == "epoch" || name == "step") {
      program_.emplace_back(LrExpression::Step());
    } else if (name == "pi") {
      program_.emplace_back(std::numbers::pi);
    } else if (name == "min") {
      return parse_call(name, Binary([](double left, double right) { return std::min(left, right); }));
    } else if (name == "max") {
      return parse_call(name, Binary([](double left, double right) { return std::max(left, right); }));
    } else if (name == "sqrt") {
      return parse_call(name, Unary([](double value) { return std::sqrt(value); }));
    } else if (name == "exp") {
      return parse_call(name, Unary([](double value) { return std::exp(value); }));
    } else if (name == "cos") {
      return parse_call(name, Unary([](double value) { return std::cos(value); }));
    } else {
      refuse("a number, epoch, step, pi, or one of the functions min, max, sqrt, exp, cos");
    }
    place_ += name.size();
  }

  void parse_number() {
    std::size_t end = place_;
    const auto skip_digits = [&] {
      while (end < text_.size() && is_digit(text_[end])) ++end;
    };
    skip_digits();
    if (end < text_.size() && text_[end] == '.') ++end;
    skip_digits();
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      ++end;
      if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
      skip_digits();
    }
    const auto number = parse_float(text_.substr(place_, end - place_));
    if (!number) refuse("a number");
    program_.emplace_back(*number);
    place_ = end;
  }

  void parse_call(std::string_view name, Unary function) {
    place_ += name.size();
    expect("(");
    parse_sum();
    expect(")");
    program_.emplace_back(function);
  }

  void parse_call(std::string_view name, Binary function) {
    place_ += name.size();
    expect("(");
    parse_sum();
    expect(",");
    do {
      parse_sum();
      program_.emplace_back(function);
    } while (take(","));
    expect(")");
  }

  /// What is left, from the next character that is no blank.
  std::string_view rest() {
    while (place_ < text_.size() && (text_[place_] == ' ' || text_[place_] == '\t' || text_[place_] == '\n')) ++place_;
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
    throw ConfigError(format("{} is no expression: at character {} there is {} where {} must be", quoted_text(text_),
                             place_ + 1, found, expected));
  }

  std::string_view text_;
  std::vector<LrExpression::Instruction>& program_;
  std::size_t place_ = 0;
  int depth_ = 0;
};

LrExpression::LrExpression(std::string_view text) : text_(text) { LrExpressionParser(text_, program_).parse(); }

double LrExpression::operator()(std::int64_t step) const {
  std::vector<double> stack;
  const auto taken = [&] {
    const double value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const Instruction& instruction : program_) {
    if (const auto* number = std::get_if<double>(&instruction)) {
      stack.push_back(*number);
    } else if (const auto* unary = std::get_if<Unary>(&instruction)) {
      stack.back() = (*unary)(stack.back());
    } else if (const auto* binary = std::get_if<Binary>(&instruction)) {
      const double right = taken();
      stack.back() = (*binary)(stack.back(), right);
    } else {
      stack.push_back(static_cast<double>(step));
    }
  }
  if (!std::isfinite(stack.back())) {
    throw MisuseError(format("The expression {} of a learning rate is {} at step {}: write one that has a value at every step.",
                             quoted_text(text_), float_text(stack.back()), step));
  }
  return stack.back();
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
