#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace levin {

struct Color {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// In pixels, from the upper left corner.
struct Point {
  double x = 0;
  double y = 0;
};

/// The side of a point on which a text is drawn.
enum class Align { kBefore, kCentre, kAfter };

struct TextStyle {
  double height = 15;             ///< of capital letters and ascenders, in pixels
  Align across = Align::kCentre;  ///< kBefore: it ends at the point
  bool upwards = false;           ///< turned by 90 degrees, to be read from below
  Color color = {38, 38, 38};
};

/// A white picture to draw on, with smooth edges, by Anti-Grain Geometry.
class Canvas {
 public:
  Canvas(int width, int height);

  /// A rectangle of whole pixels.
  void fill(Point upper_left, Point lower_right, Color color);
  void line(std::span<const Point> points, double width, Color color);
  /// Draws text in AGG's stroke font. Non-ASCII characters become "?". The point is at half their height.
  void text(std::string_view text, Point at, const TextStyle& style);
  /// The width of a text, in pixels.
  static double text_width(std::string_view text, double height);

  int width() const { return width_; }
  int height() const { return height_; }
  /// RGB, row by row.
  std::span<const std::uint8_t> pixels() const { return pixels_; }

 private:
  template <class Shape>
  void paint(Shape& shape, Color color);

  int width_;
  int height_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace levin
