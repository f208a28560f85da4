#include "levin/core/media/histogram.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace levin;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kGreatest = std::numeric_limits<double>::max();

LoggedHistogram of(const std::vector<double>& numbers) { return histogram_of(numbers); }

std::int64_t total(const LoggedHistogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("64 buckets of one width go from the least number to the greatest") {
  std::vector<double> numbers(129);
  std::iota(numbers.begin(), numbers.end(), -64.0);
  const LoggedHistogram histogram = of(numbers);
  REQUIRE(histogram.limits.size() == 64);
  CHECK(histogram.limits.front() == -62);
  CHECK(histogram.limits.back() == 64);
  CHECK(histogram.counts.front() == 3);  // -64, -63 and -62
  CHECK(std::all_of(histogram.counts.begin() + 1, histogram.counts.end(), [](std::int64_t count) { return count == 2; }));
  CHECK(histogram.min == -64);
  CHECK(histogram.max == 64);
  CHECK(histogram.number == 129);
  CHECK(histogram.sum == 0);
  CHECK(histogram.sum_squares == 178880);
}

TEST_CASE("NaN and infinities are counted apart") {
  const LoggedHistogram histogram = of({1, kNan, kInfinity, 2, -kInfinity, kNan, kNan});
  CHECK(histogram.nans == 3);
  CHECK(histogram.infinities == 2);
  CHECK(histogram.number == 2);
  CHECK(histogram.min == 1);
  CHECK(histogram.max == 2);
  CHECK(total(histogram) == 2);
}

TEST_CASE("there is one bucket where all numbers are the same, and none where there is no number") {
  const LoggedHistogram same = of({0.1, 0.1, 0.1});
  CHECK(same.limits == std::vector<double>{0.1});
  CHECK(same.counts == std::vector<std::int64_t>{3});
  CHECK(of({}).limits.empty());
  CHECK(of({kNan}).counts.empty());
  CHECK(of({kNan}).max == 0);
}

TEST_CASE("numbers next to one another and the greatest there are have ascending limits, and none is lost") {
  const double next = std::nextafter(1.0, 2.0);
  for (const std::vector<double>& numbers : {std::vector<double>{1, next, next}, {-kGreatest, 0, kGreatest}, {0, 5e-324}}) {
    const LoggedHistogram histogram = of(numbers);
    CHECK(total(histogram) == static_cast<std::int64_t>(numbers.size()));
    CHECK(std::ranges::adjacent_find(histogram.limits, std::greater_equal<>()) == histogram.limits.end());
    CHECK(histogram.limits.back() == numbers.back());
  }
}

TEST_CASE("floats are counted as doubles are") {
  const std::vector<float> numbers = {0.5F, 0.25F, -1.5F};
  const LoggedHistogram histogram = histogram_of(numbers);
  CHECK(histogram.limits == of({0.5, 0.25, -1.5}).limits);
  CHECK(histogram.counts == of({0.5, 0.25, -1.5}).counts);
  CHECK(histogram.sum == -0.75);
}
