#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin::cli {

/// Numbers over rising numbers, for a picture. At least two points, all finite.
struct Curve {
  std::string x_name;
  std::string y_name;
  bool is_logarithmic = false;  ///< the axis of x, whose numbers are then above 0
  std::vector<std::pair<double, double>> points = {};
  std::optional<std::size_t> marked = {};  ///< a point that stands out
};

/// Lines of characters: 60 columns by 16 rows, with labels next to and below them.
std::string text_plot(const Curve& curve);
/// A whole SVG file, 640 by 400.
std::string svg_plot(const Curve& curve);

}  // namespace levin::cli
