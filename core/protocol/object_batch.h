#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "levin/core/protocol/metric_state.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// The values of a metric object's batch, from entry.step_state: all are computed when the first is read.
std::vector<std::shared_ptr<DeferredValue>> batch_values(const MetricEntry& entry);

/// A state that is there, such as a checkpoint's.
class KnownState final : public MetricStateReader {
 public:
  explicit KnownState(MetricState state) : state_(std::move(state)) {}
  const MetricState& read() override { return state_; }

 private:
  MetricState state_;
};

}  // namespace levin::detail
