#include "levin/core/console/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/console/pseudo_terminal.h"
#include "levin/core/files/descriptor.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("columns are counted as a terminal shows them") {
  CHECK(display_width("") == 0);
  CHECK(display_width("loss") == 4);
  CHECK(display_width("é█") == 2);
  CHECK(display_width("日本") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("\xff\xfe") == 2);
  CHECK(display_width("\xe6\x97") == 2);
}

TEST_CASE("text is cut between characters") {
  CHECK(fit_to_width("abc", 5) == "abc");
  CHECK(fit_to_width("abc", 2) == "ab");
  CHECK(fit_to_width("日本", 3) == "日");
  CHECK(fit_to_width("e\u0301x", 1) == "e\u0301");
  CHECK(fit_to_width("x", 0).empty());
}

TEST_CASE("the locale of the environment decides on UTF-8") {
  const EnvironmentVariable all("LC_ALL", nullptr), type("LC_CTYPE", nullptr), lang("LANG", nullptr);
  CHECK_FALSE(locale_is_utf8());
  setenv("LANG", "de_DE.utf8", 1);
  CHECK(locale_is_utf8());
  setenv("LC_CTYPE", "C", 1);
  CHECK_FALSE(locale_is_utf8());
  setenv("LC_ALL", "C.UTF-8", 1);
  CHECK(locale_is_utf8());
}

TEST_CASE("a terminal gives its width, and what it can do follows TERM and NO_COLOR") {
  const PseudoTerminal terminal(57);
  const levin::test::EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", nullptr);
  CHECK(is_terminal(terminal.fd()));
  CHECK(terminal_width(terminal.fd()) == 57);
  terminal.resize(31);
  CHECK(terminal_width(terminal.fd()) == 31);
  CHECK(terminal_has_color(terminal.fd()));
  setenv("NO_COLOR", "", 1);
  CHECK(terminal_has_color(terminal.fd()));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(terminal_has_color(terminal.fd()));
  CHECK(terminal_redraws(terminal.fd()));
  setenv("TERM", "dumb", 1);
  CHECK_FALSE(terminal_redraws(terminal.fd()));
}

TEST_CASE("a file is no terminal, nor what Open MPI gives a rank instead of its output, a terminal of no size") {
  const levin::test::EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", nullptr);
  const PseudoTerminal terminal(0);
  CHECK(terminal_redraws(terminal.fd()));
  const EnvironmentVariable ranks("OMPI_COMM_WORLD_SIZE", "2");
  CHECK_FALSE(is_terminal(terminal.fd()));
  CHECK_FALSE(terminal_redraws(terminal.fd()));
  CHECK_FALSE(terminal_has_color(terminal.fd()));
  terminal.resize(80);
  CHECK(is_terminal(terminal.fd()));
  const levin::Descriptor file(open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK_FALSE(is_terminal(file.number()));
  CHECK_FALSE(terminal_has_color(file.number()));
  CHECK(terminal_width(file.number(), 99) == 99);
}

TEST_CASE("columns are as wide as their widest cell") {
  const TextTable table{
      {"", "Name", "Params"}, {{"0", "layer", "1,056"}, {"1", "déjà 日本", "66"}}, {Align::kLeft, Align::kLeft, Align::kRight}};
  CHECK(table.str() ==
        "  | Name      | Params\n"
        "----------------------\n"
        "0 | layer     |  1,056\n"
        "1 | déjà 日本 |     66");
}

TEST_CASE(
    "missing cells are empty, line breaks in cells become spaces, more cells than titles make more columns, and a table "
    "without rows is its header") {
  const TextTable table{{"a"}, {{}, {"x\ny", "2"}}, {}};
  CHECK(table.str() ==
        "a   |\n"
        "-------\n"
        "    |\n"
        "x y | 2");
  CHECK(TextTable{{"a", "b"}, {}, {}}.str() == "a | b\n-----");
  CHECK(TextTable{}.str() == "\n");
}

TEST_CASE("what others have written cannot move the cursor: it is shown escaped, in tables, too") {
  using levin::one_line;
  CHECK(one_line("a\n\tb") == "a  b");
  CHECK(one_line("\x1b[2J\r\x07") == "\\x1b[2J\\x0d\\x07");
  CHECK(one_line("\xc2\x9b"
                 "1A, \xff") == "\\xc2\\x9b1A, \\xff");
  CHECK(TextTable{{"tags"}, {{"\x1b]0;title\x07"}}, {}}.str() == "tags\n----------------\n\\x1b]0;title\\x07");
}
