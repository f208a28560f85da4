#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/callbacks/live/styled_line.h"

namespace levin {

/// A metric over a run: pairs of training batches and value, in the order of batches.
struct Series {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};
};

/// What is drawn together: "loss", of train_loss and val_loss; one of the two may have no points.
struct Curve {
  std::string title = {};
  Series training = {};
  Series validation = {};
};

/// How values become heights.
enum class Axis : std::uint8_t { kLinear, kLog };

/// The curve in so many lines, with the range of its values at the left: in block characters, Braille dots, or ASCII. Values
/// that are not finite are left out, and so are, of a logarithmic axis, those that are not above 0.
std::vector<StyledLine> draw(const Curve& curve, std::size_t width, std::size_t height, const TextStyle& style,
                             Axis axis = Axis::kLinear);
/// The finite values of a curve that are not above 0: what a logarithmic axis leaves out.
std::size_t values_not_above_zero(const Curve& curve);

/// The metrics of a run, as far as a terminal can show them: of a series that grows beyond kMost points every two become one.
class CurveHistory {
 public:
  static constexpr std::size_t kMost = 1024;

  /// The metric's value after so many training batches. `is_validation`: it comes from a validation. Of one batch the last
  /// value counts.
  void add(const std::string& name, double batches, double value, bool is_validation);
  /// Those that belong together by their names as one, losses first, in the order in which they came.
  const std::vector<Curve>& curves() const { return curves_; }

 private:
  struct Growth {
    std::int64_t stride = 1;   ///< values that make a point
    std::int64_t pending = 0;  ///< of these, in the last point
  };
  std::vector<Curve> curves_;
  std::map<std::string, Growth, std::less<>> growth_;
};

/// "loss" of "train_loss", "val/loss", "train_loss_step".
std::string curve_title(std::string_view metric);

}  // namespace levin
