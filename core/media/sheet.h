#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "levin/core/logged_item.h"
#include "levin/core/media/axis.h"
#include "levin/core/media/canvas.h"

namespace levin {

/// The sheet of a plot: an area, and the texts around it. Positions in the area are shares of it, y from below.
class Sheet {
 public:
  using Plot = FigureOf<std::vector<double>>;

  /// With title, labels and, above the area, the names of series in their colours, as many as have room. `left` and `below`:
  /// the texts left of the area and under it.
  Sheet(const Plot& plot, const std::vector<std::string>& left, const std::vector<std::string>& below);

  Canvas& canvas() { return canvas_; }
  double width() const { return right_ - left_; }
  double height() const { return bottom_ - top_; }
  Point at(double x, double y) const { return {left_ + x * width(), bottom_ - y * height()}; }

  /// A text left of the area, or under it; there rotated if they do not fit side by side.
  void write_beside(const std::string& text, double y);
  void write_below(const std::string& text, double x);
  /// Lines across the area at an axis' ticks, and their numbers.
  void draw_y_axis(const Axis& axis);
  void draw_x_axis(const Axis& axis);
  void draw_frame();

  static Color color_of(std::size_t series);

 private:
  /// Starts the names at this height, and returns the height of their end.
  double draw_legend(const Plot& plot, double top);

  Canvas canvas_;
  bool turned_ = false;  ///< texts below
  double left_ = 0;
  double right_ = 0;
  double top_ = 0;
  double bottom_ = 0;
};

}  // namespace levin
