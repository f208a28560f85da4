#include "levin/core/metric_collection.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"

namespace levin {

struct MetricCollection::Members {
  std::string prefix;
  std::vector<Member> list;
  std::vector<std::shared_ptr<SharedState>> states;  ///< each once
};

/// The state of one metric, its holder, and the values that several compute from it.
class MetricCollection::SharedState final : public MetricObject {
 public:
  explicit SharedState(std::shared_ptr<Metric> holder) : holder_(std::move(holder)) {}

  const std::shared_ptr<Metric>& holder() const { return holder_; }
  void add(std::string full_name, std::shared_ptr<Metric> metric) {
    metrics_.emplace_back(std::move(full_name), std::move(metric));
  }
  const std::string& first_name() const { return metrics_.front().first; }

  MetricState empty_state() const override { return holder_->empty_state(); }
  void merge(MetricState& total, const MetricState& more) const override { holder_->merge(total, more); }
  std::vector<double> values_of(const MetricState& state) const override {
    std::vector<double> values;
    for (const auto& [name, metric] : metrics_) {
      const std::vector<double> more = metric->values_of(state);
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  }
  /// Each metric has a different name.
  std::vector<std::string> value_names(const std::string&) const override {
    std::vector<std::string> names;
    for (const auto& [name, metric] : metrics_) {
      const std::vector<std::string> more = metric->value_names(name);
      names.insert(names.end(), more.begin(), more.end());
    }
    return names;
  }
  void send() const override { holder_->send(); }
  const MetricState& state() const override { return holder_->state(); }
  void set_state(MetricState state) override { holder_->set_state(std::move(state)); }
  void reset() override { holder_->reset(); }
  std::int64_t changes() const override { return holder_->changes(); }
  std::shared_ptr<MetricStateReader> batch_state() override { return holder_->batch_state(); }
  void show_all_ranks(std::shared_ptr<const MetricState> state) override { holder_->show_all_ranks(std::move(state)); }
  std::shared_ptr<const MetricState> all_ranks() const override { return holder_->all_ranks(); }

 private:
  std::shared_ptr<Metric> holder_;
  std::vector<std::pair<std::string, std::shared_ptr<Metric>>> metrics_;
};

MetricCollection::MetricCollection(std::string prefix) : members_(std::make_shared<Members>()) {
  members_->prefix = std::move(prefix);
}

MetricCollection::MetricCollection(const std::map<std::string, Component<Metric>>& metrics, std::string prefix)
    : MetricCollection(std::move(prefix)) {
  for (const auto& [name, component] : metrics) {
    if (component.empty()) {
      throw MisuseError(format("a MetricCollection has no metric of the name {}: it is empty.", quoted_text(name)));
    }
    const bool is_named = !component.class_path().is_null();
    add(name, is_named ? Registry<Metric>::instance().make(component.class_path(), component.init_args()) : component.get());
  }
}

MetricCollection::~MetricCollection() = default;

MetricCollection& MetricCollection::add(const std::string& name, std::shared_ptr<Metric> metric) {
  std::vector<Member>& members = members_->list;
  if (std::any_of(members.begin(), members.end(), [&](const Member& member) { return member.name == name; })) {
    throw MisuseError(format("a MetricCollection has two metrics of the name {}: rename one.", quoted_text(name)));
  }
  const auto has_state = [&](const Member& member) {
    return member.metric == metric || (!metric->state_kind().empty() && member.metric->state_kind() == metric->state_kind());
  };
  const auto found = std::find_if(members.begin(), members.end(), has_state);
  std::shared_ptr<SharedState> state;
  if (found != members.end()) {
    state = found->state;
  } else {
    state = members_->states.emplace_back(std::make_shared<SharedState>(metric));
  }
  state->add(members_->prefix + name, metric);
  members.push_back({name, std::move(metric), state});
  return *this;
}

void MetricCollection::update(const at::Tensor& predictions, const at::Tensor& targets) {
  for (const auto& state : members_->states) state->holder()->update(predictions, targets);
}

std::vector<std::pair<std::string, MetricValue>> MetricCollection::compute() const {
  std::vector<std::pair<std::string, MetricValue>> values;
  for (const Member& member : members_->list) {
    values.emplace_back(members_->prefix + member.name, member.metric->compute_from(*member.state->holder()));
  }
  return values;
}

MetricValue MetricCollection::compute(const std::string& name) const {
  std::vector<std::string> known;
  for (const Member& member : members_->list) {
    if (member.name == name) return member.metric->compute_from(*member.state->holder());
    known.push_back(member.name);
  }
  throw MisuseError(format("a MetricCollection has no metric {}{}", quoted_text(name), did_you_mean(name, known, "metrics")));
}

void MetricCollection::reset() {
  for (const auto& state : members_->states) state->reset();
}

std::vector<std::pair<std::string, std::shared_ptr<MetricObject>>> MetricCollection::states() const {
  std::vector<std::pair<std::string, std::shared_ptr<MetricObject>>> states;
  for (const auto& state : members_->states) states.emplace_back(state->first_name(), state);
  return states;
}

}  // namespace levin
