#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/metric.h"

namespace levin {

/// Named metrics that are updated and logged together. Those with the same state (Metric::state_kind()), such as Accuracy,
/// Precision and Recall with the same options, share one: it is updated and exchanged once, and each computes its value from
/// it.
///
///     levin::MetricCollection scores_ = add_metrics("scores", levin::MetricCollection("val_")
///                                                                 .add<levin::Accuracy>("acc", {.num_classes = 10})
///                                                                 .add<levin::F1Score>("f1", {.num_classes = 10}));
///     …
///     scores_.update(logits, labels);
///     log_dict(scores_);  // val_acc, val_f1
///
/// A copy has the same metrics. In a module's options it is a std::map<std::string, Component<Metric>>. Threading: one thread.
class LEVIN_API MetricCollection {
 public:
  /// `prefix`: before each name. Add metrics with add().
  explicit MetricCollection(std::string prefix = "");
  /// Makes new metrics of those that are given by class, so that several collections can use the same options. Throws
  /// MisuseError for an empty component.
  MetricCollection(const std::map<std::string, Component<Metric>>& metrics, std::string prefix = "");
  MetricCollection(const MetricCollection&) = default;
  MetricCollection& operator=(const MetricCollection&) = default;
  ~MetricCollection();

  /// Adds a metric at the end. Throws MisuseError when the name is taken.
  MetricCollection& add(const std::string& name, std::shared_ptr<Metric> metric);
  template <class Derived>
  MetricCollection& add(const std::string& name, const typename Derived::Options& options = {}) {
    return add(name, std::make_shared<Derived>(options));
  }

  /// Takes a batch, once for all metrics that share a state.
  void update(const at::Tensor& predictions, const at::Tensor& targets);
  /// Every name, with the prefix, and its value, in order.
  std::vector<std::pair<std::string, MetricValue>> compute() const;
  /// The value of one, by its name without the prefix. Throws MisuseError for an unknown name.
  MetricValue compute(const std::string& name) const;
  void reset();

  /// For levin itself: the states, each under the name of the first metric that has it.
  std::vector<std::pair<std::string, std::shared_ptr<MetricObject>>> states() const;

 private:
  class SharedState;
  struct Member {
    std::string name;
    std::shared_ptr<Metric> metric;
    std::shared_ptr<SharedState> state;
  };
  struct Members;

  std::shared_ptr<Members> members_;
};

}  // namespace levin
