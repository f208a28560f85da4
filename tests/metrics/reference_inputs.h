#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/core/metric.h"

namespace levin::test {

/// splitmix64: numbers from 0 to 1.
class Numbers {
 public:
  explicit Numbers(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed)) {}
  double operator()() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>((*this)() * static_cast<double>(count)); }

 private:
  std::uint64_t state_;
};

/// What a metric is updated with.
struct MetricBatch {
  at::Tensor predictions{};
  at::Tensor targets{};
  std::vector<std::string> texts{};
  std::vector<std::vector<std::string>> references{};

  /// `weighted`: targets are the weights of values.
  void give(Metric& metric, bool weighted = false) const;
};

/// The batches that `kind`, one of the inputs of references.json, says: as make_references.py makes them.
std::vector<MetricBatch> batches_of(const Value& kind);

std::shared_ptr<Metric> made_metric(const std::string& name, const Value& options);

}  // namespace levin::test
