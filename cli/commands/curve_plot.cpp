#include "levin/cli/commands/curve_plot.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

/// Numbers along a side of a picture, which has positions from 0 to 1.
struct Axis {
  double low;
  double high;
  bool is_logarithmic;

  double along(double number) const { return is_logarithmic ? std::log10(number) : number; }
  /// Of halves, so that the distance of any two numbers is a number; of equal ends the middle.
  double place(double number) const {
    const double length = along(high) / 2 - along(low) / 2;
    return length > 0 ? (along(number) / 2 - along(low) / 2) / length : 0.5;
  }
  double number(double place) const {
    const double at = along(low) * (1 - place) + along(high) * place;
    return is_logarithmic ? std::pow(10, at) : at;
  }
  /// Powers of ten, or of two from 1 on; else five numbers.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    const double base = low < 1 ? 10 : 2, step = std::log10(base);
    for (double power = std::ceil(along(low) / step - 1e-9); is_logarithmic && power * step <= along(high) + 1e-9; ++power)
      ticks.push_back(std::pow(base, power));
    for (int part = 0; !is_logarithmic && part <= 4; ++part) ticks.push_back(number(part / 4.0));
    return ticks;
  }
};

Axis x_axis(const Curve& curve) { return {curve.points.front().first, curve.points.back().first, curve.is_logarithmic}; }

Axis y_axis(const Curve& curve) {
  const auto by_y = [](const auto& one, const auto& other) { return one.second < other.second; };
  const auto [low, high] = std::minmax_element(curve.points.begin(), curve.points.end(), by_y);
  return {low->second, high->second > low->second ? high->second : low->second + 1, false};
}

std::string mark_text(const Curve& curve) {
  const auto& [x, y] = curve.points[*curve.marked];
  return format("{} {:.3g}, {} {:.4g}", curve.x_name, x, curve.y_name, y);
}

}  // namespace

std::string text_plot(const Curve& curve) {
  constexpr std::size_t kColumns = 60;
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kSide = 10;
  constexpr int kSubsteps = 64;  // more than a line from point to point has characters
  if (curve.points.empty()) return format("{}: no value is finite, and there is nothing to draw\n", curve.y_name);
  const Axis xs = x_axis(curve), ys = y_axis(curve);
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  const auto cell = [&](double x, double y) -> char& {
    const auto row = static_cast<std::size_t>(std::lround((1 - y) * (kRows - 1)));
    return rows[row][static_cast<std::size_t>(std::lround(x * (kColumns - 1)))];
  };
  if (curve.points.size() == 1) cell(xs.place(curve.points[0].first), ys.place(curve.points[0].second)) = '*';
  for (std::size_t point = 1; point < curve.points.size(); ++point) {
    const double x = xs.place(curve.points[point - 1].first), dx = xs.place(curve.points[point].first) - x;
    const double y = ys.place(curve.points[point - 1].second), dy = ys.place(curve.points[point].second) - y;
    for (int step = 0; step <= kSubsteps; ++step) cell(x + dx * step / kSubsteps, y + dy * step / kSubsteps) = '*';
  }
  if (curve.marked) {
    const auto& [x, y] = curve.points[*curve.marked];
    cell(xs.place(x), ys.place(y)) = 'O';
  }
  std::string text = format("{:>10}\n", curve.y_name);
  for (std::size_t row = 0; row < kRows; ++row) {
    const double place = 1 - static_cast<double>(row) / (kRows - 1);
    text += row % 5 == 0 ? format("{:>10.5g} |", ys.number(place)) : std::string(kSide + 1, ' ') + "|";
    text += rows[row].substr(0, rows[row].find_last_not_of(' ') + 1) + "\n";
  }
  const std::string left = format("{:.4g}", xs.low), right = format("{:.4g}", xs.high);
  const std::size_t room = kColumns - left.size() - right.size() - curve.x_name.size();
  text += std::string(kSide + 1, ' ') + "+" + std::string(kColumns, '-') + "\n" + std::string(kSide + 2, ' ') + left;
  text += std::string(room / 2, ' ') + curve.x_name + std::string(room - room / 2, ' ') + right + "\n";
  return text + (curve.marked ? format("{:>10}: {}\n", "O", mark_text(curve)) : "");
}

std::string svg_plot(const Curve& curve) {
  constexpr double kLeft = 90, kTop = 30, kWidth = 520, kHeight = 310;
  const Axis xs = x_axis(curve), ys = y_axis(curve);
  const auto x_at = [&](double place) { return kLeft + kWidth * place; };
  const auto y_at = [&](double place) { return kTop + kHeight * (1 - place); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"400\" viewBox=\"0 0 640 400\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"640\" height=\"400\" fill=\"white\"/>\n";
  const auto text = [&](double x, double y, const char* anchor, const std::string& words) {
    svg += format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
  };
  for (const double x : xs.ticks()) {
    const double at = x_at(xs.place(x));
    svg += format("<path stroke=\"#ddd\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", at, y_at(0), y_at(1));
    text(at, kTop + kHeight + 18, "middle", format("{:.4g}", x));
  }
  for (const double y : ys.ticks()) {
    const double at = y_at(ys.place(y));
    svg += format("<path stroke=\"#ddd\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", x_at(0), at, x_at(1));
    text(kLeft - 8, at + 4, "end", format("{:.5g}", y));
  }
  const auto place_of = [&](const auto& point) {
    return format("{:.1f},{:.1f}", x_at(xs.place(point.first)), y_at(ys.place(point.second)));
  };
  svg += format("<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\" points=\"{}\"/>\n",
                join(curve.points, " ", place_of));
  if (curve.marked) {
    const auto& [x, y] = curve.points[*curve.marked];
    svg += format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"#d62728\"/>\n", x_at(xs.place(x)), y_at(ys.place(y)));
    text(kLeft + kWidth, kTop - 10, "end", mark_text(curve));
  }
  text(kLeft + kWidth / 2, 390, "middle", curve.x_name);
  text(kLeft, kTop - 10, "middle", curve.y_name);
  return svg + "</svg>\n";
}

}  // namespace levin::cli
