#include "levin/core/media/axis.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace levin;

namespace {

std::vector<std::string> labels_of(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Axis::Tick& tick : axis.ticks) labels.push_back(tick.label);
  return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("an axis has ticks at round numbers, with as many places as they need") {
  CHECK(labels_of(axis_for(0, 1, 9)) == Labels{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(labels_of(axis_for(-3, 100, 9)) == Labels{"0", "20", "40", "60", "80", "100"});
  CHECK(labels_of(axis_for(0.501, 0.503, 5)) == Labels{"0.501", "0.502", "0.503"});
  CHECK(labels_of(axis_for(-2e-9, 2e-9, 5)) == Labels{"-2e-09", "-1e-09", "0", "1e-09", "2e-09"});
  CHECK(labels_of(axis_for(0, 5e9, 6)) == Labels{"0", "1e+09", "2e+09", "3e+09", "4e+09", "5e+09"});
}

TEST_CASE("an axis holds one number, and those that are as far apart as can be") {
  const Axis around_one = axis_for(4, 4, 5);
  CHECK(around_one.place_of(4) == 0.5);
  CHECK(labels_of(around_one) == Labels{"2", "3", "4", "5", "6"});
  CHECK(axis_for(0, 0, 5).place_of(0) == 0.5);
  const double most = std::numeric_limits<double>::max();
  const Axis widest = axis_for(-most, most, 5);
  CHECK(widest.place_of(-most) == 0);
  CHECK(widest.place_of(0) == 0.5);
  CHECK(widest.place_of(most) == 1);
  CHECK(widest.ticks.size() >= 2);
}

TEST_CASE("numbers are written short") {
  CHECK(short_number(12) == "12");
  CHECK(short_number(-0.12345) == "-0.123");
  CHECK(short_number(1234567) == "1.23e+06");
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(short_number(-std::numeric_limits<double>::infinity()) == "-inf");
}
