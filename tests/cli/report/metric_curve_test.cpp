#include "levin/cli/report/metric_curve.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using levin::cli::CurvePoint;
using levin::cli::MetricCurve;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a short curve keeps each value") {
  MetricCurve curve;
  for (std::int64_t step = 9; step < 600; step += 10) curve.add(step, static_cast<double>(step) / 2);
  const std::vector<CurvePoint> points = curve.points();
  REQUIRE(points.size() == 60);
  CHECK(curve.size() == 60);
  CHECK(points[0].step == 9);
  CHECK(points[59].step == 599);
  CHECK(points[59].last == 299.5);
  CHECK(points[59].min == 299.5);
  CHECK(points[59].values == 1);
}

TEST_CASE("a long curve keeps least, largest, last and mean of neighbours, in bounded memory") {
  MetricCurve curve;
  constexpr std::int64_t kSteps = 1'000'000;
  for (std::int64_t step = 0; step < kSteps; ++step) curve.add(step, static_cast<double>(step % 1000));
  const std::vector<CurvePoint> points = curve.points();
  REQUIRE(points.size() == 489);  // of 2048 steps each
  CHECK(points[0].step == 2047);
  CHECK(points[0].last == 47);
  CHECK(points[0].min == 0);
  CHECK(points[0].max == 999);
  CHECK(points[0].values == 2048);
  CHECK(points[0].mean() == Approx((2 * 499500.0 + 1128.0) / 2048.0));
  CHECK(points.back().step == kSteps - 1);
  CHECK(points.back().last == 999);
  std::int64_t values = 0;
  for (const CurvePoint& point : points) values += point.values;
  CHECK(values == kSteps);
}

TEST_CASE("steps may come in any order, as of ranks one after another") {
  MetricCurve forwards, backwards;
  for (std::int64_t step = 0; step < 5000; ++step) forwards.add(step, std::sin(static_cast<double>(step)));
  for (std::int64_t step = 4999; step >= 0; --step) backwards.add(step, std::sin(static_cast<double>(step)));
  const auto expected = forwards.points();
  const auto points = backwards.points();
  REQUIRE(points.size() == expected.size());
  for (std::size_t index = 0; index < points.size(); ++index) {
    CHECK(points[index].step == expected[index].step);
    CHECK(points[index].last == expected[index].last);
    CHECK(points[index].min == expected[index].min);
    CHECK(points[index].max == expected[index].max);
  }
}

TEST_CASE("values far apart are not taken together") {
  MetricCurve curve;
  for (std::int64_t epoch = 1; epoch <= 10; ++epoch) curve.add(epoch * 100'000'000 - 1, static_cast<double>(epoch));
  CHECK(curve.size() == 10);
  curve.add(0, 5);
  CHECK(curve.size() == 11);
  CHECK(curve.points()[0].last == 5);
}

TEST_CASE("what is no finite number has a point, but no part in least and largest") {
  MetricCurve curve;
  curve.add(0, 1);
  curve.add(1, kNan);
  curve.add(2, std::numeric_limits<double>::infinity());
  curve.downsample(1);
  const CurvePoint point = curve.points().at(0);
  CHECK(std::isnan(point.last));
  CHECK(point.step == 2);
  CHECK(point.min == 1);
  CHECK(point.max == 1);
  CHECK(point.count == 1);
  CHECK(point.values == 3);
  MetricCurve none;
  none.add(7, kNan);
  CHECK(none.size() == 1);
  CHECK(std::isnan(none.points()[0].min));
  CHECK(std::isnan(none.points()[0].mean()));
}

TEST_CASE("a curve is thinned to a length") {
  MetricCurve curve;
  for (std::int64_t step = 0; step < 500; ++step) curve.add(step, 1);
  curve.downsample(100);
  CHECK(curve.size() == 63);
  curve.downsample(1);
  CHECK(curve.size() == 1);
  CHECK(curve.points()[0].values == 500);
}
