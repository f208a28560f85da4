#include "levin/core/media/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levin {
namespace {

constexpr int kBuckets = 64;

/// All but the buckets.
template <class Number>
LoggedHistogram totals_of(std::span<const Number> numbers) {
  LoggedHistogram histogram;
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (const Number one : numbers) {
    const auto number = static_cast<double>(one);
    if (std::isnan(number)) ++histogram.nans;
    if (std::isinf(number)) ++histogram.infinities;
    if (!std::isfinite(number)) continue;
    ++histogram.number;
    histogram.sum += number;
    histogram.sum_squares += number * number;
    least = std::min(least, number);
    greatest = std::max(greatest, number);
  }
  if (histogram.number > 0) histogram.min = least, histogram.max = greatest;
  return histogram;
}

template <class Number>
LoggedHistogram histogram_of_numbers(std::span<const Number> numbers) {
  LoggedHistogram histogram = totals_of(numbers);
  if (histogram.number == 0) return histogram;
  const double least = histogram.min;
  // In halves: the whole range of doubles is not a double.
  const double width = histogram.max / kBuckets - least / kBuckets;
  for (int bucket = 1; bucket < kBuckets && width > 0; ++bucket) histogram.limits.push_back(least + bucket * width);
  // Adjacent numbers among the greatest doubles may have fewer limits between them.
  histogram.limits.erase(std::unique(histogram.limits.begin(), histogram.limits.end()), histogram.limits.end());
  while (!histogram.limits.empty() && histogram.limits.back() >= histogram.max) histogram.limits.pop_back();
  histogram.limits.push_back(histogram.max);
  histogram.counts.resize(histogram.limits.size());
  for (const Number one : numbers) {
    const auto number = static_cast<double>(one);
    if (!std::isfinite(number)) continue;
    const auto limit = std::lower_bound(histogram.limits.begin(), histogram.limits.end(), number);
    ++histogram.counts[static_cast<std::size_t>(limit - histogram.limits.begin())];
  }
  return histogram;
}

}  // namespace

LoggedHistogram histogram_of(std::span<const float> numbers) { return histogram_of_numbers(numbers); }
LoggedHistogram histogram_of(std::span<const double> numbers) { return histogram_of_numbers(numbers); }

}  // namespace levin
