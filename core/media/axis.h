#pragma once

#include <string>
#include <vector>

namespace levin {

/// An axis from `low` to `high`, low < high, with ticks at round numbers.
struct Axis {
  struct Tick {
    double value = 0;
    std::string label;
  };

  double low = 0;
  double high = 1;
  std::vector<Tick> ticks = {};

  /// The position of a number on it, from 0 to 1.
  double place_of(double value) const;
};

/// The axis for finite numbers between these, with at most `most_ticks` ticks. For a single number an axis around it.
Axis axis_for(double least, double greatest, int most_ticks);

/// "0.25", "1e-05", "12000": four digits at most.
std::string short_number(double value);

}  // namespace levin
