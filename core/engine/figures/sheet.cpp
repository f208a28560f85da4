#include "levin/core/engine/figures/sheet.h"

#include <algorithm>
#include <array>
#include <utility>

namespace levin {
namespace {

constexpr int kSheetWidth = 960;
constexpr int kSheetHeight = 640;
constexpr double kLetters = 15;
constexpr double kSpace = 10;
constexpr double kWidestBeside = kSheetWidth / 4.0;
constexpr double kTallestBelow = kSheetHeight / 5.0;
constexpr Color kFrameColor = {90, 90, 90};
constexpr Color kGridColor = {225, 225, 225};

/// The text, or as much of it as has room.
std::string fitted(std::string text, double width) {
  if (Canvas::text_width(text, kLetters) <= width) return text;
  while (!text.empty() && Canvas::text_width(text + "..", kLetters) > width) text.pop_back();
  return text + "..";
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, Canvas::text_width(text, kLetters));
  return width;
}

}  // namespace

Color Sheet::color_of(std::size_t series) {
  // Okabe and Ito's, which the colour-blind tell apart, without yellow.
  constexpr std::array<Color, 7> kColors = {
      {{0, 114, 178}, {213, 94, 0}, {0, 158, 115}, {204, 121, 167}, {230, 159, 0}, {86, 180, 233}, {60, 60, 60}}};
  return kColors.at(series % kColors.size());
}

Sheet::Sheet(const Plot& plot, const std::vector<std::string>& beside, const std::vector<std::string>& below)
    : canvas_(kSheetWidth, kSheetHeight) {
  left_ = 2 * kSpace + std::min(widest(beside), kWidestBeside) + (plot.y_label.empty() ? 0 : kLetters + kSpace);
  right_ = kSheetWidth - 3 * kSpace;
  top_ = 2 * kSpace + (plot.title.empty() ? 0 : 2 * kLetters);
  const double widest_below = widest(below);
  turned_ = !below.empty() && widest_below + kSpace > width() / static_cast<double>(below.size());
  const double room_below = 2 * kSpace + (turned_ ? std::min(widest_below, kTallestBelow) : kLetters);
  bottom_ = kSheetHeight - room_below - (plot.x_label.empty() ? 0 : kLetters + kSpace);
  canvas_.text(fitted(plot.title, kSheetWidth / 1.2), {kSheetWidth / 2.0, kSpace + kLetters}, {.height = kLetters * 1.2});
  canvas_.text(fitted(plot.x_label, width()), {at(0.5, 0).x, kSheetHeight - kSpace - kLetters / 2}, {});
  canvas_.text(fitted(plot.y_label, height()), {kSpace + kLetters / 2, at(0, 0.5).y}, {.upwards = true});
}

void Sheet::write_beside(const std::string& text, double y) {
  canvas_.text(fitted(text, kWidestBeside), {left_ - kSpace, at(0, y).y}, {.across = Align::kBefore});
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

void Sheet::draw_legend(const Plot& plot) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> names;
  std::vector<Color> colors;
  for (std::size_t index = 0; index < plot.series.size() && names.size() < kMost; ++index) {
    if (plot.series[index].name.empty()) continue;
    names.push_back(fitted(plot.series[index].name, width() / 3));
    colors.push_back(color_of(index));
  }
  if (names.empty()) return;
  const double row = kLetters + kSpace;
  const double left = right_ - widest(names) - 5 * kSpace;
  const double end = top_ + kSpace + static_cast<double>(names.size()) * row;
  canvas_.fill({left, top_ + kSpace / 2}, {right_ - kSpace / 2, end}, {255, 255, 255});
  double y = top_ + kSpace / 2 + row / 2;
  for (std::size_t index = 0; index < names.size(); ++index, y += row) {
    canvas_.line(std::array{Point{left + kSpace, y}, Point{left + 3 * kSpace, y}}, 4, colors[index]);
    canvas_.text(names[index], {left + 4 * kSpace, y}, {.across = Align::kAfter});
  }
}

}  // namespace levin
