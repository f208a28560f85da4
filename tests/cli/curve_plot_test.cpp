#include "levin/cli/commands/curve_plot.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

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

TEST_CASE("a curve of no point, of one, and of points that are alike or far apart is drawn, too") {
  CHECK(levin::cli::text_plot({"rate", "loss", true, {}, {}}) == "loss: no value is finite, and there is nothing to draw\n");
  const std::vector<Curve> curves = {{"rate", "loss", true, {{0.1, 2}}, 0},
                                     {"rate", "loss", false, {{0, 2}}, {}},
                                     {"rate", "loss", false, {{1, 2}, {1, 2}}, 1},
                                     {"rate", "loss", true, {{0.1, -1e308}, {1, 1e308}}, 1}};
  for (const Curve& curve : curves) {
    const std::vector<std::string> lines = levin::split(levin::cli::text_plot(curve), "\n");
    CHECK(lines.size() >= 20);
    CHECK_THAT(levin::cli::text_plot(curve), Catch::Contains("*") || Catch::Contains("O"));
    for (const char* wrong : {"nan", "inf"}) CHECK_THAT(levin::cli::svg_plot(curve), !Catch::Contains(wrong));
  }
}
