#include "levin/core/config/lr_expression.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "levin/core/base/error.h"

namespace levin {
namespace {

double value_of(const std::string& text, std::int64_t step = 3) { return LrExpression(text)(step); }

TEST_CASE("an expression has the value that it has in Python") {
  CHECK(value_of("2 + 3 * 4 - 5") == 9.0);
  CHECK(value_of("8 / 4 / 2") == 1.0);
  CHECK(value_of("8 - 4 - 2") == 2.0);
  CHECK(value_of("2 * (3 + 4)") == 14.0);
  CHECK(value_of("2 ** 3 ** 2") == 512.0);
  CHECK(value_of("-2 ** 2") == -4.0);
  CHECK(value_of("2 ** -1") == 0.5);
  CHECK(value_of("2*-3") == -6.0);
  CHECK(value_of("- - +2") == 2.0);
  CHECK(value_of("7 // 2") == 3.0);
  CHECK(value_of("-7 // 2") == -4.0);
  CHECK(value_of("-7 % 3") == 2.0);
  CHECK(value_of("7 % -3") == -2.0);
  CHECK(value_of("6 % 3") == 0.0);
  CHECK(value_of("1.5e1 + .5 + 2.") == 17.5);
  CHECK(value_of("2E-1") == 0.2);
  CHECK(value_of("epoch * 10 + step") == 33.0);
  CHECK(value_of("\t0.5 **\nepoch ") == 0.125);
  CHECK(value_of("min(4, 3, 5)") == 3.0);
  CHECK(value_of("max(4, epoch, 5)") == 5.0);
  CHECK(value_of("sqrt(16) + exp(0) + cos(pi)") == 4.0);
  CHECK(value_of("pi") == std::numbers::pi);
}

TEST_CASE("an expression is neither long nor deep without end") {
  const auto times = [](int count, const std::string& part) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  CHECK(value_of(times(499, "1+") + "1") == 500.0);
  CHECK_THROWS_WITH(LrExpression(times(500, "1+") + "1"), Catch::Contains("1000 characters at most, and this one has 1001"));
  CHECK(value_of(times(49, "(") + "1" + times(49, ")")) == 1.0);
  CHECK_THROWS_WITH(LrExpression(times(50, "(") + "1" + times(50, ")")), Catch::Contains("50 levels at most"));
  CHECK_THROWS_WITH(LrExpression(times(60, "-") + "1"), Catch::Contains("50 levels at most"));
  CHECK_THROWS_WITH(LrExpression(times(60, "1**") + "1"), Catch::Contains("50 levels at most"));
  CHECK_THROWS_WITH(LrExpression(times(60, "sqrt(")), Catch::Contains("50 levels at most"));
}

TEST_CASE("a step at which an expression has no finite value is an error that names both") {
  const LrExpression inverse("1 / epoch");
  CHECK(inverse(4) == 0.25);
  CHECK_THROWS_AS(inverse(0), MisuseError);
  CHECK_THROWS_WITH(inverse(0), Catch::Contains("'1 / epoch'") && Catch::Contains(".inf at step 0"));
  CHECK_THROWS_WITH(value_of("(-1) ** 0.5"), Catch::Contains(".nan at step 3"));
  CHECK_THROWS_WITH(value_of("10 ** 400"), Catch::Contains("at step 3"));
  CHECK_THROWS_WITH(value_of("sqrt(2 - epoch)"), Catch::Contains("at step 3"));
}

}  // namespace
}  // namespace levin
