#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace levin::cli {

/// A summary of the values of some neighbouring steps.
struct CurvePoint {
  std::int64_t step = 0;  ///< of the last value
  double last = 0;        ///< NaN where the last value was none or infinite
  double min = 0;         ///< of finite values, as max and mean(); NaN where there was none
  double max = 0;
  double sum = 0;
  std::int64_t count = 0;   ///< finite values
  std::int64_t values = 0;  ///< all; 0: no value at these steps

  double mean() const;
};

/// A metric over steps, in bounded memory however many values come: each point stands for as many steps as the others, a power
/// of two, which doubles when there would be more than kLongest points.
class MetricCurve {
 public:
  static constexpr std::size_t kLongest = 600;

  /// Steps may come in any order, and several times: as of several ranks.
  void add(std::int64_t step, double value);
  /// Makes points stand for more steps until there are at most so many; at least 1.
  void downsample(std::size_t longest);
  /// The points that have values, by step.
  std::vector<CurvePoint> points() const;
  std::size_t size() const;  ///< of points()

 private:
  /// Neighbours become one.
  void merge_pairs();
  CurvePoint& slot_of(std::int64_t step);

  int shift_ = 0;                  ///< a slot stands for 2^shift_ steps
  std::int64_t first_ = 0;         ///< slots_[0] begins with step first_ * 2^shift_
  std::vector<CurvePoint> slots_;  ///< at most kLongest
};

}  // namespace levin::cli
