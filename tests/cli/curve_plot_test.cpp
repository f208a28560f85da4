#include "levin/cli/curve_plot.h"

#include <catch2/catch.hpp>

#include "levin/core/base/text.h"

using levin::cli::Curve;

TEST_CASE("a curve is drawn with characters and as SVG, with its marked point") {
  const Curve curve{"rate", "loss", true, {{0.01, 3}, {0.1, 3}, {1, 1}, {10, 2}, {100, 3}}, 2};
  const std::vector<std::string> lines = levin::split(levin::cli::text_plot(curve), "\n");
  REQUIRE(lines.size() == 21);
  CHECK(lines[0] == "      loss");
  CHECK(lines[1] == "         3 |****************" + std::string(42, ' ') + "**");
  CHECK(lines[8].substr(0, 12) == std::string(11, ' ') + "|");
  CHECK(lines[16].substr(0, 20) == "         1 |        ");
  CHECK(lines[16].substr(12 + 29, 2) == "*O");
  CHECK(lines[18] == "            0.01                        rate                         100");
  CHECK(lines[19] == "         O: rate 1, loss 1");
  const std::string svg = levin::cli::svg_plot(curve);
  CHECK_THAT(svg, Catch::Contains("points=\"90.0,30.0 220.0,30.0 350.0,340.0 480.0,185.0 610.0,30.0\""));
  CHECK_THAT(svg, Catch::Contains("<circle cx=\"350.0\" cy=\"340.0\""));
  CHECK_THAT(svg, Catch::Contains(">rate 1, loss 1</text>"));
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
}
