#include "levin/core/base/text.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

using levin::printable;
using levin::quoted_text;

TEST_CASE("what controls a terminal is shown as its bytes") {
  CHECK(printable("a\x1b[31m\x7f\r") == "a\\x1b[31m\\x7f\\x0d");
  CHECK(printable("two\n\tlines, ä 😀") == "two\n\tlines, ä 😀");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // the one character that begins an escape sequence, too
  CHECK(printable("\xff\xe2\x82") == "\\xff\\xe2\\x82");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("any text is shown as UTF-8 without control characters, and the same twice") {
  CHECK(rc::check([](const std::string& text) {
    const std::string shown = printable(text);
    RC_ASSERT(printable(shown) == shown);
    for (std::size_t at = 0; at < shown.size();) {
      const std::size_t length = levin::utf8_length(shown.substr(at));
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
  CHECK(levin::utf8_length("a") == 1);
  CHECK(levin::utf8_length("€uro") == 3);
  CHECK(levin::utf8_code_point("€", 3) == 0x20ac);
  CHECK(levin::utf8_code_point("😀", 4) == 0x1f600);
  for (const char* wrong : {"", "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"}) {
    CAPTURE(wrong);
    CHECK(levin::utf8_length(wrong) == 0);
  }
}
