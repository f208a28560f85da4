#pragma once

#include <ATen/ATen.h>

#include "levin/core/metric.h"

/// The metric that docs/metrics.md shows.
class HitRate : public levin::Metric {
 public:
  void update(const at::Tensor& predictions, const at::Tensor& targets) override {
    hits_.take(predictions.sub(targets).abs().lt(0.5).sum());
    seen_.take(static_cast<double>(targets.numel()));
  }
  levin::MetricValue compute() const override { return hits_.value() / seen_.value(); }

 private:
  levin::MetricNumbers hits_ = add_numbers("hits");
  levin::MetricNumbers seen_ = add_numbers("seen");
};
