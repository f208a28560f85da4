#include "levin/core/console/table.h"

#include <catch2/catch.hpp>

using levin::Align;
using levin::TextTable;

TEST_CASE("columns are as wide as their widest cell") {
  const TextTable table{
      {"", "Name", "Params"}, {{"0", "layer", "1,056"}, {"1", "déjà 日本", "66"}}, {Align::kLeft, Align::kLeft, Align::kRight}};
  CHECK(table.str() ==
        "  | Name      | Params\n"
        "----------------------\n"
        "0 | layer     |  1,056\n"
        "1 | déjà 日本 |     66");
}

TEST_CASE("missing cells are empty, line breaks in cells become spaces, and more cells than titles make more columns") {
  const TextTable table{{"a"}, {{}, {"x\ny", "2"}}, {}};
  CHECK(table.str() ==
        "a   |\n"
        "-------\n"
        "    |\n"
        "x y | 2");
}

TEST_CASE("a table without rows is its header") {
  CHECK(TextTable{{"a", "b"}, {}, {}}.str() == "a | b\n-----");
  CHECK(TextTable{}.str() == "\n");
}
