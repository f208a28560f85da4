#include "levin/callbacks/live/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {
namespace {

constexpr std::size_t kLabelWidth = 8;  ///< of the range of values

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// From 0 to `last`; the middle where there is but one value.
  std::size_t place(double value, std::size_t last) const {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(last)));
  }
};

/// Dots of two series, in cells of the terminal.
class Canvas {
 public:
  /// `dots_across`, `dots_down`: of a cell.
  Canvas(std::size_t width, std::size_t height, std::size_t dots_across, std::size_t dots_down)
      : across(width * dots_across),
        down(height * dots_down),
        dots_across_(dots_across),
        dots_down_(dots_down),
        width_(width),
        cells_(width * height) {}

  void line(std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1, int layer) {
    const auto [left, right] = std::minmax(x0, x1);
    const std::size_t steps = std::max({right - left, y0 > y1 ? y0 - y1 : y1 - y0, std::size_t{1}});
    for (std::size_t step = 0; step <= steps; ++step) {
      const double share = static_cast<double>(step) / static_cast<double>(steps);
      const auto between = [&](std::size_t from, std::size_t to) {
        return static_cast<std::size_t>(std::lround(static_cast<double>(from) * (1 - share) + static_cast<double>(to) * share));
      };
      dot(between(x0, x1), between(y0, y1), layer);
    }
  }
  /// Of a cell: which of its dots are set, by layer.
  const std::array<unsigned, 2>& cell(std::size_t column, std::size_t row) const { return cells_[row * width_ + column]; }

  const std::size_t across;
  const std::size_t down;

 private:
  /// `y` counts from the bottom.
  void dot(std::size_t x, std::size_t y, int layer) {
    // Unicode's numbers of Braille dots: by column, from above.
    constexpr std::array<std::array<unsigned, 4>, 2> kDots = {{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    const std::size_t from_above = down - 1 - y;
    cells_[from_above / dots_down_ * width_ + x / dots_across_][static_cast<std::size_t>(layer)] |=
        kDots[x % dots_across_][from_above % dots_down_];
  }

  std::size_t dots_across_;
  std::size_t dots_down_;
  std::size_t width_;
  std::vector<std::array<unsigned, 2>> cells_;
};

/// The height of a value; NaN for one that the axis cannot show.
double height_of(double value, Axis axis) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(value)) return kNone;
  return axis == Axis::kLinear ? value : value > 0 ? std::log10(value) : kNone;
}

/// The mean height of what falls into each column.
void plot(const Series& series, Axis axis, const Range& x_range, const Range& y_range, int layer, Canvas& canvas) {
  struct Mean {
    double sum = 0;
    int count = 0;
  };
  std::vector<Mean> means(canvas.across);
  for (const auto& [x, value] : series.points) {
    const double y = height_of(value, axis);
    if (std::isnan(y)) continue;
    Mean& mean = means[x_range.place(x, canvas.across - 1)];
    mean.sum += y;
    ++mean.count;
  }
  std::optional<std::pair<std::size_t, std::size_t>> before;
  for (std::size_t x = 0; x < means.size(); ++x) {
    if (means[x].count == 0) continue;
    const std::size_t y = y_range.place(means[x].sum / means[x].count, canvas.down - 1);
    const auto [from_x, from_y] = before.value_or(std::pair(x, y));
    canvas.line(from_x, from_y, x, y, layer);
    before = {x, y};
  }
}

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// Of the upper and the lower half of a cell, as each font has them.
const char* block(unsigned dots) {
  constexpr unsigned kUpper = 0x01;  // Canvas's numbers of the first column
  constexpr unsigned kLower = 0x02;
  return dots == kUpper ? "▀" : dots == kLower ? "▄" : "█";
}

/// Of a cell.
struct Dots {
  std::size_t across = 1;
  std::size_t down = 1;
};
Dots dots_of(const TextStyle& style) { return !style.utf8 ? Dots{1, 1} : style.braille ? Dots{2, 4} : Dots{1, 2}; }

Span cell_text(const std::array<unsigned, 2>& layers, const TextStyle& style) {
  const auto [training, validation] = layers;
  if ((training | validation) == 0) return {" "};
  const SpanStyle span_style = validation != 0 ? SpanStyle::kValidation : SpanStyle::kTraining;
  if (!style.utf8) return {validation != 0 ? "o" : "*", span_style};
  // Without colours the two would look alike.
  if (!style.color && validation != 0) return {"•", span_style};
  if (style.braille) return {braille(training | validation), span_style};
  // Blocks of one colour would take the other's half, too.
  return {block(validation != 0 ? validation : training), span_style};
}

bool starts_series(std::string_view name, std::string_view stage) {
  return name.size() > stage.size() + 1 && name.starts_with(stage) && (name[stage.size()] == '_' || name[stage.size()] == '/');
}

}  // namespace

std::vector<StyledLine> draw(const Curve& curve, std::size_t width, std::size_t height, const TextStyle& style, Axis axis) {
  Range x_range, y_range, values;
  for (const Series* series : {&curve.training, &curve.validation}) {
    for (const auto& [x, value] : series->points) {
      const double y = height_of(value, axis);
      if (std::isnan(y)) continue;
      x_range.include(x);
      y_range.include(y);
      values.include(value);
    }
  }
  const bool is_empty = y_range.low > y_range.high;
  const Dots dots = dots_of(style);
  Canvas canvas(std::max(width, kLabelWidth + 2) - kLabelWidth - 1, height, dots.across, dots.down);
  plot(curve.training, axis, x_range, y_range, 0, canvas);
  plot(curve.validation, axis, x_range, y_range, 1, canvas);
  std::vector<StyledLine> lines;
  for (std::size_t row = 0; row < height; ++row) {
    std::string label;
    if (!is_empty && row == 0 && y_range.high > y_range.low) label = figure_text(values.high);
    if (!is_empty && row + 1 == height) label = figure_text(values.low);
    StyledLine line = {{format("{:>8}", label), SpanStyle::kDim}, {style.utf8 ? "│" : "|", SpanStyle::kDim}};
    for (std::size_t column = 0; column * dots.across < canvas.across; ++column) {
      Span cell = cell_text(canvas.cell(column, row), style);
      if (line.back().style == cell.style) {
        line.back().text += cell.text;
      } else {
        line.push_back(std::move(cell));
      }
    }
    lines.push_back(fitted(std::move(line), width));
  }
  if (is_empty) {
    const char* const why =
        values_not_above_zero(curve) > 0 ? "no value above 0, which a logarithmic axis needs" : "no metric yet";
    lines[height / 2] = fitted({{std::string(kLabelWidth + 3, ' ')}, {why, SpanStyle::kDim}}, width);
  }
  return lines;
}

std::size_t values_not_above_zero(const Curve& curve) {
  std::size_t count = 0;
  for (const Series* series : {&curve.training, &curve.validation}) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        series->points, [](const auto& point) { return std::isfinite(point.second) && point.second <= 0; }));
  }
  return count;
}

std::string curve_title(std::string_view metric) {
  for (const std::string_view stage : {"train", "training", "val", "valid", "validation"}) {
    if (!starts_series(metric, stage)) continue;
    metric.remove_prefix(stage.size() + 1);
    break;
  }
  if (constexpr std::string_view kStep = "_step"; metric.ends_with(kStep) && metric.size() > kStep.size()) {
    metric.remove_suffix(kStep.size());
  }
  return std::string(metric);
}

void CurveHistory::add(const std::string& name, double batches, double value, bool is_validation) {
  const std::string title = curve_title(name);
  const auto series_of = [&](Curve& curve) -> Series& { return is_validation ? curve.validation : curve.training; };
  const auto has_place = [&](Curve& curve) {
    const std::string& own = series_of(curve).name;
    return curve.title == title && (own.empty() || own == name);
  };
  auto found = std::find_if(curves_.begin(), curves_.end(), has_place);
  if (found == curves_.end()) {
    const auto is_loss = [](const Curve& curve) { return curve.title.ends_with("loss"); };
    const Curve curve{.title = title};
    // Losses are drawn first, even if a validation has logged something before the first step.
    if (is_loss(curve)) found = std::find_if_not(curves_.begin(), curves_.end(), is_loss);
    found = curves_.insert(found, curve);
  }
  Series& series = series_of(*found);
  series.name = name;
  auto& points = series.points;
  Growth& growth = growth_[(is_validation ? "val " : "train ") + name];
  if (!points.empty() && points.back().first == batches) {
    points.back().second = value;
  } else if (growth.pending > 0 && growth.pending < growth.stride && std::isfinite(points.back().second)) {
    auto& [x, y] = points.back();
    x = batches;
    y += (value - y) / static_cast<double>(++growth.pending);
  } else {
    points.emplace_back(batches, value);
    growth.pending = 1;
  }
  if (points.size() < kMost) return;
  for (std::size_t i = 0; i < kMost / 2; ++i) {
    const auto& [first, second] = std::pair(points[2 * i], points[2 * i + 1]);
    const bool both = std::isfinite(first.second) && std::isfinite(second.second);
    points[i] = both                          ? std::pair(second.first, (first.second + second.second) / 2)
                : std::isfinite(first.second) ? first
                                              : second;
  }
  points.resize(kMost / 2);
  growth.stride *= 2;
  growth.pending = growth.stride;
}

}  // namespace levin
