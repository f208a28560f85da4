#include "levin/core/media/draw_figure.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/png_pixels.h"

using namespace levin;
using namespace levin::test;

namespace {

using Plot = FigureOf<std::vector<double>>;
using Rgb = std::array<std::uint8_t, 3>;

constexpr Rgb kFirst = {0, 114, 178};
constexpr Rgb kSecond = {213, 94, 0};
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// The pixels of a figure.
class Picture {
 public:
  explicit Picture(const Plot& plot) : image_(draw_figure(plot)), pixels_(decoded(image_)) {}

  struct Box {
    std::int64_t pixels = 0;
    std::int64_t left = 100000;
    std::int64_t right = -1;
    std::int64_t top = 100000;
    std::int64_t bottom = -1;
  };
  Rgb at(std::int64_t x, std::int64_t y) const {
    const auto* const pixel = &pixels_[static_cast<std::size_t>((y * image_.width + x) * 3)];
    return {pixel[0], pixel[1], pixel[2]};
  }
  /// Where the picture has exactly this colour, from column `from` to before column `to`.
  Box where(const Rgb& color, std::int64_t from = 0, std::int64_t to = 100000) const {
    Box box;
    for (std::int64_t y = 0; y < image_.height; ++y) {
      for (std::int64_t x = from; x < std::min(to, image_.width); ++x) {
        if (at(x, y) != color) continue;
        ++box.pixels;
        box.left = std::min(box.left, x);
        box.right = std::max(box.right, x);
        box.top = std::min(box.top, y);
        box.bottom = std::max(box.bottom, y);
      }
    }
    return box;
  }

 private:
  LoggedImage image_;
  std::vector<std::uint8_t> pixels_;
};

Plot lines(std::vector<Plot::Series> series) { return {.kind = FigureKind::kLines, .series = std::move(series)}; }
Plot bars(std::vector<Plot::Series> series) { return {.kind = FigureKind::kBars, .series = std::move(series)}; }
Plot heat_map(std::vector<double> values, std::size_t width) {
  return {.kind = FigureKind::kHeatMap, .series = {{"", std::move(values)}}, .width = width};
}

}  // namespace

TEST_CASE("a line goes from its first point to its last, upwards where its numbers grow") {
  const Picture picture(lines({{"", {0, 1, 2, 3}}}));
  const Picture::Box line = picture.where(kFirst);
  CHECK(line.right - line.left > 700);
  CHECK(line.bottom - line.top > 500);
  CHECK(picture.where(kFirst, line.left, line.left + 20).top > line.bottom - 30);
  CHECK(picture.where(kFirst, line.right - 20).bottom < line.top + 30);
}

TEST_CASE("points stand where their x are, and a number that is not finite is a gap") {
  const Picture picture(lines({{"", {1, 1, kNan, 1, 1}, {0, 10, 20, 90, 100}}}));
  const Picture::Box line = picture.where(kFirst);
  const std::int64_t width = line.right - line.left;
  CHECK(picture.where(kFirst, line.left + width / 8, line.left + width * 7 / 8).pixels == 0);
  const Picture alone(lines({{"", {kNan, 5, kNan}}}));
  CHECK(alone.where(kFirst).pixels > 0);
  CHECK(Picture(lines({{"", {kNan, std::numeric_limits<double>::infinity()}}})).where(kFirst).pixels == 0);
}

TEST_CASE("a long line is drawn whole") {
  std::vector<double> zigzag(200'000);
  for (std::size_t index = 0; index < zigzag.size(); ++index) zigzag[index] = index % 2 == 0 ? 1 : -1;
  const Picture::Box line = Picture(lines({{"", zigzag}})).where(kFirst);
  CHECK(line.pixels > 700 * 500);
  // One number that leaves the rest is seen.
  std::vector<double> flat(200'000, 0.0);
  flat[123'456] = -1;
  flat[123'457] = 1;
  const Picture::Box leap = Picture(lines({{"", flat}})).where(kFirst);
  CHECK(leap.bottom - leap.top > 500);
}

TEST_CASE("bars are as high as their numbers, below zero too, and those of one column stand side by side") {
  const Picture picture(bars({{"", {1, 2, 4, -2}}, {"", {4, 4, 4, kNan}}}));
  const Picture::Box all = picture.where(kFirst);
  const std::int64_t column = (all.right - all.left) * 10 / 34;  // 0.8 of a column for two bars; the last one is missing
  std::vector<double> heights;
  for (int index = 0; index < 4; ++index) {
    const Picture::Box bar = picture.where(kFirst, all.left + index * column, all.left + index * column + column / 3);
    heights.push_back(static_cast<double>(bar.bottom - bar.top + 1));
  }
  CHECK(heights[1] / heights[0] == Approx(2).epsilon(0.03));
  CHECK(heights[2] / heights[0] == Approx(4).epsilon(0.03));
  CHECK(heights[3] == Approx(heights[1]).epsilon(0.03));
  CHECK(picture.where(kFirst, all.left, all.left + column / 3).bottom <
        picture.where(kFirst, all.left + 3 * column, all.left + 3 * column + column / 3).top);
  CHECK(picture.where(kSecond).left > all.left);
}

TEST_CASE("the names of series stand in their colours above the plot") {
  const Picture without(bars({{"", {1, 1}}, {"", {1, 0}}}));
  const Picture with(bars({{"one", {1, 1}}, {"two", {1, 0}}}));
  CHECK(with.where(kSecond).top < without.where(kSecond).top - 10);
  CHECK(with.where(kFirst).top < with.where(kFirst, with.where(kFirst).right - 20).top);
}

TEST_CASE("a heat map is darker where its numbers are greater, and its first row is on top") {
  const Picture picture(heat_map({0, 1, 2, 4}, 2));
  const Picture::Box least = picture.where({247, 250, 254});
  const Picture::Box most = picture.where({8, 45, 100});
  CHECK(least.right < most.left);
  CHECK(least.bottom < most.top);
  CHECK(least.pixels > 100'000);
  CHECK(picture.where({255, 255, 255}, most.left, most.right).pixels > 0);  // its number, in white
}

TEST_CASE("numbers of both signs have two colours, and what is not finite is grey") {
  const Picture picture(heat_map({-2, 0, 2, kNan}, 4));
  CHECK(picture.where({110, 10, 30}).right < picture.where({8, 45, 100}).left);
  CHECK(picture.where({190, 190, 190}).pixels > 10'000);
}

TEST_CASE("figures of any size and with any text are drawn") {
  Plot plot = heat_map(std::vector<double>(300 * 200, 1.0), 300);
  plot.title = std::string(5000, 'x') + "\x01\xff äöü 漢字";
  plot.x_label = plot.y_label = plot.title;
  plot.rows.assign(200, plot.title);
  plot.columns.assign(300, plot.title);
  CHECK(Picture(plot).where({95, 155, 203}).pixels > 100'000);
  CHECK(Picture(heat_map({}, 0)).where(kFirst).pixels == 0);
  CHECK(Picture(bars({{"", {}}})).where(kFirst).pixels == 0);
  CHECK(Picture(lines({{"", {}}})).where(kFirst).pixels == 0);
  std::vector<Plot::Series> many(50, Plot::Series{"a line with a long name that has no room beside the others", {1, 2}});
  CHECK(Picture(lines(many)).where(kSecond).pixels > 0);
}
