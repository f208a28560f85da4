#include "levin/core/media/draw_figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/media/axis.h"
#include "levin/core/media/canvas.h"
#include "levin/core/media/png_image.h"
#include "levin/core/media/sheet.h"

namespace levin {
namespace {

using Plot = Sheet::Plot;

constexpr int kMostTicks = 9;
constexpr std::size_t kMostNamed = 40;  ///< columns or rows that each have their name written

/// Of the finite numbers that were added.
struct Extent {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  /// With some room below the least number and above the greatest, where they are not 0.
  Extent widened() const {
    constexpr double kShare = 0.04;
    const double room = (greatest - least) * kShare;
    if (!std::isfinite(room)) return *this;
    return {least == 0 ? 0 : least - room, greatest == 0 ? 0 : greatest + room};
  }
  Axis axis() const { return least > greatest ? axis_for(0, 1, kMostTicks) : axis_for(least, greatest, kMostTicks); }
};

std::vector<std::string> labels_of(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Axis::Tick& tick : axis.ticks) labels.push_back(tick.label);
  return labels;
}

/// Names of columns or rows: those that were given, or numbers; where there are many, every so manieth.
std::vector<std::string> names_of(const std::vector<std::string>& given, std::size_t count) {
  const std::size_t every = (count + kMostNamed - 1) / kMostNamed;
  std::vector<std::string> names(count);
  for (std::size_t index = 0; index < count; index += every) names[index] = given.empty() ? format("{}", index) : given[index];
  return names;
}

double x_of(const Plot::Series& series, std::size_t index) {
  return series.x.empty() ? static_cast<double>(index) : series.x[index];
}

bool is_point(const Plot::Series& series, std::size_t index) {
  return std::isfinite(series.y[index]) && std::isfinite(x_of(series, index));
}

/// Adds a point to a line. Of those that follow one another in one column of pixels the first, the last, the highest and the
/// lowest are drawn: the rest would not be seen, and takes AGG minutes where there are a million.
void add_point(std::vector<Point>& points, const Point& point) {
  constexpr std::size_t kKept = 4;
  const auto column = [](const Point& of) { return std::floor(of.x); };
  const std::size_t size = points.size();
  if (size < kKept || column(points[size - kKept]) != column(point)) return points.push_back(point);
  Point& lowest = points[size - 3];
  Point& highest = points[size - 2];
  Point& last = points[size - 1];
  if (lowest.y < highest.y) std::swap(lowest, highest);
  if (last.y > lowest.y) lowest = last;
  if (last.y < highest.y) highest = last;
  last = point;
}

void draw_line(Sheet& sheet, const Plot::Series& series, Color color, const Axis& x, const Axis& y) {
  std::vector<Point> points;
  for (std::size_t index = 0; index <= series.y.size(); ++index) {
    if (index < series.y.size() && is_point(series, index)) {
      add_point(points, sheet.at(x.place_of(x_of(series, index)), y.place_of(series.y[index])));
      continue;
    }
    // A point alone is a dot: AGG draws no line without a length.
    if (points.size() == 1) points.push_back({points.front().x + 0.1, points.front().y});
    if (!points.empty()) sheet.canvas().line(points, 2, color);
    points.clear();
  }
}

Sheet lines_drawn(const Plot& plot) {
  Extent x_extent;
  Extent y_extent;
  for (const Plot::Series& series : plot.series) {
    for (std::size_t index = 0; index < series.y.size(); ++index) {
      if (!is_point(series, index)) continue;
      x_extent.add(x_of(series, index));
      y_extent.add(series.y[index]);
    }
  }
  const Axis x = x_extent.axis();
  const Axis y = y_extent.widened().axis();
  Sheet sheet(plot, labels_of(y), labels_of(x));
  sheet.draw_y_axis(y);
  sheet.draw_x_axis(x);
  for (std::size_t index = 0; index < plot.series.size(); ++index)
    draw_line(sheet, plot.series[index], Sheet::color_of(index), x, y);
  return sheet;
}

Sheet bars_drawn(const Plot& plot) {
  constexpr double kShareOfGap = 0.2;
  std::size_t columns = 0;
  Extent heights;
  heights.add(0);
  for (const Plot::Series& series : plot.series) {
    columns = std::max(columns, series.y.size());
    for (const double height : series.y) heights.add(height);
  }
  const Axis y = heights.widened().axis();
  const std::vector<std::string> names = names_of(plot.columns, columns);
  Sheet sheet(plot, labels_of(y), names);
  sheet.draw_y_axis(y);
  const double column = 1.0 / static_cast<double>(std::max<std::size_t>(columns, 1));
  const double bar = column * (1 - kShareOfGap) / static_cast<double>(plot.series.size());
  for (std::size_t index = 0; index < columns; ++index) {
    double left = column * (static_cast<double>(index) + kShareOfGap / 2);
    for (const Plot::Series& series : plot.series) {
      const double height = index < series.y.size() ? series.y[index] : 0;
      const auto number = static_cast<std::size_t>(&series - plot.series.data());
      const double from = y.place_of(std::max(height, 0.0));
      if (std::isfinite(height))
        sheet.canvas().fill(sheet.at(left, from), sheet.at(left + bar, y.place_of(std::min(height, 0.0))),
                            Sheet::color_of(number));
      left += bar;
    }
    sheet.write_below(names[index], column * (static_cast<double>(index) + 0.5));
  }
  const double zero = y.place_of(0);
  sheet.canvas().line(std::array{sheet.at(0, zero), sheet.at(1, zero)}, 1, {90, 90, 90});
  return sheet;
}

/// Between colours that are given from 0 on in equal steps.
Color between(std::span<const Color> colors, double share) {
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(colors.size() - 1);
  const auto first = std::min(static_cast<std::size_t>(place), colors.size() - 2);
  const double rest = place - static_cast<double>(first);
  const auto mixed = [&](std::uint8_t Color::*part) {
    return static_cast<std::uint8_t>(std::lround(colors[first].*part * (1 - rest) + colors[first + 1].*part * rest));
  };
  return {mixed(&Color::red), mixed(&Color::green), mixed(&Color::blue)};
}

/// From white to blue; where there are numbers of both signs, red below zero and as dark at equal distances from it.
Color heat_of(double value, const Extent& extent) {
  constexpr std::array<Color, 4> kBlue = {{{247, 250, 254}, {150, 195, 225}, {40, 115, 180}, {8, 45, 100}}};
  constexpr std::array<Color, 4> kRed = {{{254, 249, 247}, {240, 170, 140}, {200, 75, 60}, {110, 10, 30}}};
  if (!std::isfinite(value)) return {190, 190, 190};
  if (extent.least >= 0 || extent.greatest <= 0) {
    const Axis axis{.low = extent.least, .high = extent.greatest};
    return between(kBlue, extent.least < extent.greatest ? axis.place_of(value) : 0.5);
  }
  const double share = std::abs(value) / std::max(-extent.least, extent.greatest);
  return value < 0 ? between(kRed, share) : between(kBlue, share);
}

void draw_cell(Sheet& sheet, Point upper_left, Point lower_right, double value, const Extent& extent) {
  const Color color = heat_of(value, extent);
  sheet.canvas().fill(upper_left, lower_right, color);
  const double room = lower_right.x - upper_left.x;
  if (room < 12) return;
  const std::string text = short_number(value);
  const double letters =
      std::min({15.0, (lower_right.y - upper_left.y) * 0.5, 15.0 * room * 0.85 / Canvas::text_width(text, 15)});
  if (letters < 6) return;
  const bool is_dark = color.red * 0.3 + color.green * 0.6 + color.blue * 0.1 < 140;
  const Color ink = is_dark ? Color{255, 255, 255} : Color{38, 38, 38};
  sheet.canvas().text(text, {(upper_left.x + lower_right.x) / 2, (upper_left.y + lower_right.y) / 2},
                      {.height = letters, .color = ink});
}

Sheet heat_map_drawn(const Plot& plot) {
  const std::vector<double>& values = plot.series.front().y;
  const std::size_t columns = plot.width;
  const std::size_t rows = columns == 0 ? 0 : values.size() / columns;
  Extent extent;
  for (const double value : values) extent.add(value);
  const std::vector<std::string> column_names = names_of(plot.columns, columns);
  const std::vector<std::string> row_names = names_of(plot.rows, rows);
  Sheet sheet(plot, row_names, column_names);
  const auto x_at = [&](std::size_t column) { return static_cast<double>(column) / static_cast<double>(columns); };
  const auto y_at = [&](std::size_t row) { return 1 - static_cast<double>(row) / static_cast<double>(rows); };
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      draw_cell(sheet, sheet.at(x_at(column), y_at(row)), sheet.at(x_at(column + 1), y_at(row + 1)),
                values[row * columns + column], extent);
    }
    sheet.write_beside(row_names[row], (y_at(row) + y_at(row + 1)) / 2);
  }
  for (std::size_t column = 0; column < columns; ++column)
    sheet.write_below(column_names[column], (x_at(column) + x_at(column + 1)) / 2);
  return sheet;
}

Sheet drawn(const Plot& plot) {
  if (plot.kind == FigureKind::kHeatMap) return heat_map_drawn(plot);
  return plot.kind == FigureKind::kBars ? bars_drawn(plot) : lines_drawn(plot);
}

}  // namespace

LoggedImage draw_figure(const Plot& plot) {
  Sheet sheet = drawn(plot);
  sheet.draw_frame();
  const Canvas& canvas = sheet.canvas();
  return encode_rgb_png(canvas.pixels(), canvas.width(), canvas.height());
}

}  // namespace levin
