#include "levin/core/base/text.h"

#include <rapidcheck.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"

using namespace levin;

TEST_CASE("a float's text is short and never looks like an int") {
  CHECK(float_text(1.0) == "1.0");
  CHECK(float_text(-0.0) == "-0.0");
  CHECK(float_text(0.1) == "0.1");
  CHECK(float_text(1e-5) == "1e-05");
  CHECK(float_text(1e300) == "1e+300");
  CHECK(float_text(std::numeric_limits<double>::infinity()) == ".inf");
  CHECK(float_text(-std::numeric_limits<double>::infinity()) == "-.inf");
  CHECK(float_text(std::nan("")) == ".nan");
}

TEST_CASE("a float's text reads back to the same bits") {
  CHECK(rc::check([](std::uint64_t bits) {
    const double value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    const double read = std::strtod(float_text(value).c_str(), nullptr);
    RC_ASSERT(std::bit_cast<std::uint64_t>(read) == bits);
  }));
}

TEST_CASE("a float is read from the whole of a text, and what is out of range goes to 0 or infinity") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(parse_float("-1.5e3") == -1500.0);
  CHECK(parse_float("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(parse_float("1e-999") == 0.0);
  CHECK(std::signbit(parse_float("-1e-999").value()));
  CHECK(parse_float("0." + std::string(400, '0') + "1") == 0.0);
  CHECK(parse_float("0." + std::string(400, '0') + "1e402") == 10.0);
  CHECK(parse_float("1e999") == infinity);
  CHECK(parse_float("-1e99999999999999999999") == -infinity);
  CHECK(parse_float(std::string(400, '9')) == infinity);
  CHECK(parse_float("-inf") == -infinity);
  CHECK(std::isnan(parse_float("nan").value()));
  for (const char* wrong : {"", "x", "1x", "1 ", " 1", "+1", "--1", "0x10"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_float(wrong));
  }
}

TEST_CASE("what controls a terminal is shown as its bytes") {
  CHECK(printable("a\x1b[31m\x7f\r") == "a\\x1b[31m\\x7f\\x0d");
  CHECK(printable("two\n\tlines, ä 😀") == "two\n\tlines, ä 😀");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // the one character that begins an escape sequence, too
  CHECK(printable("\xff\xe2\x82") == "\\xff\\xe2\\x82");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("any text is shown as UTF-8 without control characters, and a second time the same") {
  CHECK(rc::check([](const std::string& text) {
    const std::string shown = printable(text);
    RC_ASSERT(printable(shown) == shown);
    for (std::size_t at = 0; at < shown.size();) {
      const std::size_t length = utf8_length(shown.substr(at));
      RC_ASSERT(length > 0U);
      at += length;
    }
  }));
}

TEST_CASE("a quoted name is one line, and cut between characters") {
  CHECK(quoted_text("a'b\n\tc") == "'a'b\\n\\tc'");
  CHECK(quoted_text(std::string(300, 'x')) == "'" + std::string(100, 'x') + "…'");
  CHECK(quoted_text("ääää", 3) == "'ä…'");
  CHECK(quoted_text("ab", 2) == "'ab'");
  CHECK(quoted_text("\xff\xff\xff", 2) == "'\\xff\\xff…'");
}

TEST_CASE("UTF-8 characters have a length and a number") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("€uro") == 3);
  CHECK(utf8_code_point("€", 3) == 0x20ac);
  CHECK(utf8_code_point("😀", 4) == 0x1f600);
  for (const char* wrong : {"", "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"}) {
    CAPTURE(wrong);
    CHECK(utf8_length(wrong) == 0);
  }
}

TEST_CASE("join puts the separator between parts only, and takes their text from a function or a member too") {
  CHECK(join(std::vector<std::string>{}) == "");
  CHECK(join(std::vector<std::string>{"a"}) == "a");
  CHECK(join(std::vector<std::string>{"a", "", "c"}) == "a, , c");
  CHECK(join(std::vector<const char*>{"a", "b"}, "|") == "a|b");
  const std::vector<std::pair<std::string, int>> parts = {{"a", 1}, {"b", 2}};
  CHECK(join(parts, " and ", &std::pair<std::string, int>::first) == "a and b");
  CHECK(join(parts, " ", [](const auto& part) { return std::to_string(part.second); }) == "1 2");
}

TEST_CASE("a slip finds the name it was meant to be, and garbage finds none") {
  const std::vector<std::string> known = {"max_epochs", "max_steps", "min_epochs", "precision", "lr"};
  CHECK(nearest_name("max_epoch", known) == "max_epochs");
  CHECK(nearest_name("maxepochs", known) == "max_epochs");
  CHECK(nearest_name("precison", known) == "precision");
  CHECK(nearest_name("rl", known) == "lr");
  CHECK(nearest_name("xy", known).empty());
  CHECK(nearest_name("unrelated_thing", known).empty());
  CHECK(nearest_name(std::string(100'000, 'm'), known).empty());
}

TEST_CASE("an unknown name without a near one gets the whole list") {
  // Neither the contrary nor another number is what was meant.
  CHECK(nearest_name("max_lr", {"min_lr"}).empty());
  CHECK(nearest_name("val_loss", {"train_loss", "val_losses"}) == "val_losses");
  CHECK(nearest_name("16-true", {"32-true", "bf16-true"}) == "bf16-true");
  CHECK(nearest_name("fc1.weight", {"fc2.weight"}).empty());
  CHECK(nearest_name("min_epoch", {"max_epochs", "min_epochs"}) == "min_epochs");
  // Of short names two other letters make another word, of long ones a third.
  CHECK(nearest_name("net", {"key"}).empty());
  CHECK(nearest_name("tags", {"task"}).empty());
  CHECK(nearest_name("TUClsCheckpoint", {"ModelCheckpoint"}).empty());
  CHECK(nearest_name("bucket_cap", {"bucket_cap_mb"}) == "bucket_cap_mb");
  CHECK(did_you_mean("epoch", {"epochs", "lr"}, "keys") == "; did you mean 'epochs'?");
  CHECK(did_you_mean("zzzzzz", {"epochs", "lr"}, "keys") == "; the keys are 'epochs', 'lr'");
  CHECK(did_you_mean("zzzzzz", {}, "keys") == "; there are no keys");
}

namespace one {
struct Recorder {};
template <class Value>
struct Keeps {
  struct Inner {};
};
}  // namespace one

namespace {
struct Hidden {};

std::string name_of_local() {
  struct Local {};
  return class_name_of(typeid(Local));
}
}  // namespace

TEST_CASE("a class's name is without its namespaces, and with those of a template's arguments") {
  CHECK(class_name_of(typeid(one::Recorder)) == "Recorder");
  CHECK(class_name_of(typeid(Hidden)) == "Hidden");
  CHECK(class_name_of(typeid(int)) == "int");
  CHECK(class_name_of(typeid(one::Keeps<int>)) == "Keeps<int>");
  CHECK(class_name_of(typeid(one::Keeps<one::Recorder>)) == "Keeps<one::Recorder>");
  CHECK(class_name_of(typeid(one::Keeps<one::Keeps<one::Recorder>>)) == "Keeps<one::Keeps<one::Recorder> >");
  CHECK(class_name_of(typeid(one::Keeps<one::Recorder>::Inner)) == "Inner");
  CHECK(class_name_of(typeid(one::Keeps<void (*)(one::Recorder)>)) == "Keeps<void (*)(one::Recorder)>");
  CHECK(name_of_local() == "Local");
  CHECK(full_class_name_of(typeid(one::Recorder)) == "one::Recorder");
}

TEST_CASE("format puts each argument where its braces are") {
  CHECK(format("nothing") == "nothing");
  CHECK(format("rank {} of host {}", 3, std::string("node-1")) == "rank 3 of host node-1");
  const char* text = "literal";
  CHECK(format("{}{}{}", text, std::string_view("view"), 'c') == "literalviewc");
  CHECK(format("{}/{}", std::filesystem::path("folder/file.csv"), true) == "folder/file.csv/true");
  CHECK(format("{} {}", false, std::string("a\0b", 3)) == std::string("false a\0b", 9));
}

TEST_CASE("format writes whole numbers of every size") {
  CHECK(format("{} {}", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max()) ==
        "-9223372036854775808 18446744073709551615");
  CHECK(format("{} {} {}", std::int8_t{-5}, std::uint8_t{200}, short{7}) == "-5 200 7");
  CHECK(format("{:02}:{:>4}:{:x}", 7, 12, 255) == "07:  12:ff");
}

TEST_CASE("format writes a float so that it reads back, unless its braces say how") {
  CHECK(format("{} {} {} {}", 1.0, 0.1, 1e-5, -2.5f) == "1.0 0.1 1e-05 -2.5");
  CHECK(format("{}", std::numeric_limits<double>::infinity()) == ".inf");
  CHECK(format("{:.3f} {:.9g} {:6.1f}|{:.0f}", 0.12345, 1e-5, 2.0, 1.5) == "0.123 1e-05    2.0|2");
}

TEST_CASE("format takes a doubled brace for one that is meant, and does not read texts as patterns") {
  CHECK(format("{{{}}} }}{{", 1) == "{1} }{");
  CHECK(format("{}: {}", "100 % {x}", "{0}") == "100 % {x}: {0}");
}

TEST_CASE("a pattern that does not fit its arguments does not compile") {
  using levin::detail::pattern_error;
  STATIC_REQUIRE(pattern_error<>("") == "");
  STATIC_REQUIRE(pattern_error<int, std::string>("{} {{}} {}") == "");
  STATIC_REQUIRE(pattern_error<int>("{} {}") == "more {} than arguments");
  STATIC_REQUIRE(pattern_error<int, int>("{}") == "fewer {} than arguments");
  STATIC_REQUIRE(pattern_error<int>("{{}}") == "fewer {} than arguments");
  STATIC_REQUIRE(pattern_error<int>("{") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{}}") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{:{}}") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{0}") == "a format specification in {} begins with a colon");
  STATIC_REQUIRE(pattern_error<double, int>("{:.3f} {:02}") == "");
  STATIC_REQUIRE(pattern_error<int>("{:.3f}") == "not for an argument of this type");
  STATIC_REQUIRE(pattern_error<double>("{:d}") == "not for an argument of this type");
  STATIC_REQUIRE(pattern_error<const char*>("{:x}") == "not for an argument of this type");
}
