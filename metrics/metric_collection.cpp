#include "levin/metrics/metric_collection.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

void MetricCollection::add(const std::string& name, const Component<Metric>& component) {
  const auto has_name = [&](const Member& member) { return member.name == name; };
  if (std::any_of(members_.begin(), members_.end(), has_name)) {
    throw MisuseError(format("a MetricCollection has two metrics of the name {}: rename one.", quoted_text(name)));
  }
  const std::shared_ptr<Metric> metric = component.get();
  if (!metric) throw MisuseError(format("a MetricCollection has no metric of the name {}: it is empty.", quoted_text(name)));
  const auto has_state = [&](const Member& member) {
    return member.metric == metric || (!metric->state_kind().empty() && member.metric->state_kind() == metric->state_kind());
  };
  const auto found = std::find_if(members_.begin(), members_.end(), has_state);
  const bool shares = found != members_.end();
  members_.push_back({name, metric, shares ? (found->holder ? found->holder : found->metric) : nullptr});
}

void MetricCollection::update(const at::Tensor& predictions, const at::Tensor& targets) {
  for (const Member& member : members_) {
    if (!member.holder) member.metric->update(predictions, targets);
  }
}

std::vector<std::pair<std::string, MetricValue>> MetricCollection::compute() const {
  std::vector<std::pair<std::string, MetricValue>> values;
  for (const Member& member : members_) values.emplace_back(member.name, member.metric->compute_from(member.state()));
  return values;
}

MetricValue MetricCollection::compute(const std::string& name) const {
  std::vector<std::string> known;
  for (const Member& member : members_) {
    if (member.name == name) return member.metric->compute_from(member.state());
    known.push_back(member.name);
  }
  throw MisuseError(format("a MetricCollection has no metric {}{}", quoted_text(name), did_you_mean(name, known, "metrics")));
}

void MetricCollection::reset() {
  for (const Member& member : members_) member.metric->reset();
}

std::vector<std::pair<std::string, std::reference_wrapper<Metric>>> MetricCollection::states() const {
  std::vector<std::pair<std::string, std::reference_wrapper<Metric>>> states;
  for (const Member& member : members_) {
    if (!member.holder) states.emplace_back(member.name, std::ref(*member.metric));
  }
  return states;
}

}  // namespace levin
