#include "levin/cli/report/metric_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace levin::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Takes the values of a later point into an earlier one.
void absorb(CurvePoint& point, const CurvePoint& later) {
  if (later.values == 0) return;
  if (point.values == 0) {
    point = later;
    return;
  }
  point.step = later.step;
  point.last = later.last;
  point.min = std::fmin(point.min, later.min);
  point.max = std::fmax(point.max, later.max);
  point.sum += later.sum;
  point.count += later.count;
  point.values += later.values;
}

}  // namespace

double CurvePoint::mean() const { return count == 0 ? kNone : sum / static_cast<double>(count); }

CurvePoint& MetricCurve::slot_of(std::int64_t step) {
  constexpr auto kMost = static_cast<std::int64_t>(kLongest);
  if (slots_.empty()) first_ = step >> shift_;
  std::int64_t slot = (step >> shift_) - first_;
  while (slot >= kMost || slot < static_cast<std::int64_t>(slots_.size()) - kMost) {
    merge_pairs();
    slot = (step >> shift_) - first_;
  }
  if (slot < 0) {
    slots_.insert(slots_.begin(), static_cast<std::size_t>(-slot), CurvePoint());
    first_ += slot;
    slot = 0;
  }
  const auto index = static_cast<std::size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  return slots_[index];
}

void MetricCurve::add(std::int64_t step, double value) {
  CurvePoint& point = slot_of(step);
  const bool is_number = std::isfinite(value);
  if (point.values == 0) point = {step, kNone, kNone, kNone, 0, 0, 0};
  ++point.values;
  if (step >= point.step) {
    point.step = step;
    point.last = is_number ? value : kNone;
  }
  if (!is_number) return;
  point.min = point.count == 0 ? value : std::min(point.min, value);
  point.max = point.count == 0 ? value : std::max(point.max, value);
  point.sum += value;
  ++point.count;
}

void MetricCurve::merge_pairs() {
  const std::int64_t first = first_ >> 1;
  std::vector<CurvePoint> merged;
  merged.reserve(kLongest);
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    const auto place = static_cast<std::size_t>(((first_ + static_cast<std::int64_t>(index)) >> 1) - first);
    if (place >= merged.size()) merged.resize(place + 1);
    absorb(merged[place], slots_[index]);
  }
  slots_ = std::move(merged);
  first_ = first;
  ++shift_;
}

void MetricCurve::downsample(std::size_t longest) {
  while (size() > std::max<std::size_t>(longest, 1)) merge_pairs();
}

std::size_t MetricCurve::size() const {
  const auto has_values = [](const CurvePoint& point) { return point.values > 0; };
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), has_values));
}

std::vector<CurvePoint> MetricCurve::points() const {
  std::vector<CurvePoint> points;
  for (const CurvePoint& point : slots_) {
    if (point.values > 0) points.push_back(point);
  }
  return points;
}

}  // namespace levin::cli
