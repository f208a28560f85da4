#include "levin/core/media/sheet.h"

#include <algorithm>
#include <array>
#include <utility>

namespace levin {
namespace {

constexpr int kSheetWidth = 960;
constexpr int kSheetHeight = 640;
constexpr double kLetters = 15;
constexpr double kSpace = 10;
constexpr double kWidestLeft = kSheetWidth / 4.0;
constexpr double kTallestBelow = kSheetHeight / 5.0;
constexpr Color kFrameColor = {90, 90, 90};
constexpr Color kGridColor = {225, 225, 225};

/// No text has room for more.
std::string beginning(std::string text) {
  constexpr std::size_t kLongest = 200;
  if (text.size() > kLongest) text.resize(kLongest);
  return text;
}

/// The text, or as much of it as has room.
std::string fitted(std::string text, double width) {
  text = beginning(std::move(text));
  if (Canvas::text_width(text, kLetters) <= width) return text;
  while (!text.empty() && Canvas::text_width(text + "..", kLetters) > width) text.pop_back();
  return text + "..";
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, Canvas::text_width(beginning(text), kLetters));
  return width;
}

}  // namespace

Color Sheet::color_of(std::size_t series) {
  // Okabe and Ito's, which colour-blind people can distinguish, without yellow.
  constexpr std::array<Color, 7> kColors = {
      {{0, 114, 178}, {213, 94, 0}, {0, 158, 115}, {204, 121, 167}, {230, 159, 0}, {86, 180, 233}, {60, 60, 60}}};
  return kColors.at(series % kColors.size());
}

Sheet::Sheet(const Plot& plot, const std::vector<std::string>& left, const std::vector<std::string>& below)
    : canvas_(kSheetWidth, kSheetHeight) {
  left_ = 2 * kSpace + std::min(widest(left), kWidestLeft) + (plot.y_label.empty() ? 0 : kLetters + kSpace);
  right_ = kSheetWidth - 3 * kSpace;
  top_ = draw_legend(plot, kSpace + (plot.title.empty() ? 0 : 2 * kLetters)) + kSpace;
  const double widest_below = widest(below);
  turned_ = !below.empty() && widest_below + kSpace > width() / static_cast<double>(below.size());
  const double room_below = 2 * kSpace + (turned_ ? std::min(widest_below, kTallestBelow) : kLetters);
  bottom_ = kSheetHeight - room_below - (plot.x_label.empty() ? 0 : kLetters + kSpace);
  canvas_.text(fitted(plot.title, kSheetWidth / 1.2), {kSheetWidth / 2.0, kSpace + kLetters / 2}, {.height = kLetters * 1.2});
  canvas_.text(fitted(plot.x_label, width()), {at(0.5, 0).x, kSheetHeight - kSpace - kLetters / 2}, {});
  canvas_.text(fitted(plot.y_label, height()), {kSpace + kLetters / 2, at(0, 0.5).y}, {.upwards = true});
}

void Sheet::write_beside(const std::string& text, double y) {
  canvas_.text(fitted(text, kWidestLeft), {left_ - kSpace, at(0, y).y}, {.across = Align::kBefore});
}

void Sheet::write_below(const std::string& text, double x) {
  const Point edge = at(x, 0);
  if (!turned_) return canvas_.text(text, {edge.x, edge.y + kSpace + kLetters / 2}, {});
  canvas_.text(fitted(text, kTallestBelow), {edge.x, edge.y + kSpace}, {.across = Align::kBefore, .upwards = true});
}

void Sheet::draw_y_axis(const Axis& axis) {
  for (const Axis::Tick& tick : axis.ticks) {
    const double y = axis.place_of(tick.value);
    canvas_.line(std::array{at(0, y), at(1, y)}, 1, kGridColor);
    write_beside(tick.label, y);
  }
}

void Sheet::draw_x_axis(const Axis& axis) {
  for (const Axis::Tick& tick : axis.ticks) {
    const double x = axis.place_of(tick.value);
    canvas_.line(std::array{at(x, 0), at(x, 1)}, 1, kGridColor);
    write_below(tick.label, x);
  }
}

void Sheet::draw_frame() { canvas_.line(std::array{at(0, 0), at(1, 0), at(1, 1), at(0, 1), at(0, 0)}, 1, kFrameColor); }

double Sheet::draw_legend(const Plot& plot, double top) {
  constexpr int kMostRows = 3;
  const double row = kLetters + kSpace;
  double x = left_;
  int rows = 0;
  for (std::size_t index = 0; index < plot.series.size(); ++index) {
    if (plot.series[index].name.empty()) continue;
    const std::string name = fitted(plot.series[index].name, width() / 2);
    const double size = 3 * kSpace + Canvas::text_width(name, kLetters);
    if (rows == 0 || x + size > right_) {
      if (++rows > kMostRows) return top + kMostRows * row;
      x = left_;
    }
    const double y = top + (rows - 0.5) * row;
    canvas_.line(std::array{Point{x, y}, Point{x + 2 * kSpace, y}}, 4, color_of(index));
    canvas_.text(name, {x + 3 * kSpace, y}, {.across = Align::kAfter});
    x += size + 2 * kSpace;
  }
  return top + rows * row;
}

}  // namespace levin
