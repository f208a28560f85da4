#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/protocol/simulation/program.h"
#include "levin/core/protocol/metric_state.h"

namespace levin::testing {

/// A metric object of a generated program, on one rank: like levin::Metric, without tensors. Its values depend on the order of
/// its rows, and on which columns share a row.
class SimulatedObject final : public MetricObject {
 public:
  explicit SimulatedObject(const ObjectPlan& plan);

  void update(const Sample& sample);
  /// What compute() of a Metric sees.
  std::vector<double> seen() const { return values_of(all_ranks_ ? *all_ranks_ : total_); }
  /// From here on no value can be computed.
  void fail() { fails_ = true; }

  MetricState empty_state() const override;
  void merge(MetricState& total, const MetricState& more) const override;
  std::vector<double> values_of(const MetricState& state) const override;
  std::vector<std::string> value_names(const std::string& name) const override;
  const MetricState& state() const override { return total_; }
  void set_state(MetricState state) override;
  void reset() override;
  std::int64_t changes() const override { return changes_; }
  std::shared_ptr<MetricStateReader> batch_state() override;
  void show_all_ranks(std::shared_ptr<const MetricState> state) override { all_ranks_ = std::move(state); }
  std::shared_ptr<const MetricState> all_ranks() const override { return all_ranks_; }

 private:
  struct Batch;
  void take(MetricState& state, const Sample& sample) const;
  void changed();

  ObjectPlan plan_;
  MetricState total_;
  std::shared_ptr<Batch> batch_;  ///< null: no batches were requested
  bool batch_is_taken_ = false;
  std::shared_ptr<const MetricState> all_ranks_;
  std::int64_t changes_ = 0;
  bool fails_ = false;
};

}  // namespace levin::testing
