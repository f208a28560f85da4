#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/metric.h"
#include "levin/core/options/component.h"

namespace levin {

/// Metrics with names that are updated together. Those with the same state, such as Accuracy, Precision and Recall with the
/// same options (Metric::state_kind()), have one: it is counted once, travels once, and each computes its value of it.
///
///     levin::MetricCollection metrics({{"acc", std::make_shared<levin::Accuracy>(levin::AccuracyOptions{.num_classes = 10})},
///                                      {"f1", std::make_shared<levin::F1Score>(levin::F1ScoreOptions{.num_classes = 10})}});
///     metrics.update(scores, labels);
///     for (const auto& [name, value] : metrics.compute()) …
///
/// In a module's options it is a std::map<std::string, Component<Metric>>. Threading: one thread.
class LEVIN_API MetricCollection {
 public:
  using Named = std::pair<std::string, Component<Metric>>;

  /// In this order. Throws MisuseError on a name that comes twice, and an empty component.
  MetricCollection(std::initializer_list<Named> metrics) {
    for (const auto& [name, metric] : metrics) add(name, metric);
  }
  MetricCollection(const std::map<std::string, Component<Metric>>& metrics) {
    for (const auto& [name, metric] : metrics) add(name, metric);
  }

  void update(const at::Tensor& predictions, const at::Tensor& targets);
  /// Every name with its value, in order.
  std::vector<std::pair<std::string, MetricValue>> compute() const;
  /// The value of one. Throws MisuseError on a name that there is not.
  MetricValue compute(const std::string& name) const;
  void reset();

  /// The metrics whose states are counted, under the name of the first that has each: what a run has to merge and to keep.
  std::vector<std::pair<std::string, std::reference_wrapper<Metric>>> states() const;

 private:
  void add(const std::string& name, const Component<Metric>& component);

  struct Member {
    std::string name;
    std::shared_ptr<Metric> metric;
    std::shared_ptr<Metric> holder;  ///< of its state: one before it, or null: itself
    const Metric& state() const { return holder ? *holder : *metric; }
  };
  std::vector<Member> members_;
};

}  // namespace levin
