#include "core/protocol/simulation/simulated_object.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "levin/core/protocol/metric_table.h"

namespace levin::testing {

namespace {

/// Row `index` of a list.
template <class Row>
Row row(const std::string& rows, std::size_t index) {
  Row value{};
  std::memcpy(&value, rows.data() + index * sizeof value, sizeof value);
  return value;
}

template <class Row>
void append(std::string& rows, Row value) {
  rows.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

struct SimulatedObject::Batch final : MetricStateReader {
  const MetricState& read() override { return state; }
  MetricState state;
};

SimulatedObject::SimulatedObject(const ObjectPlan& plan) : plan_(plan), total_(empty_state()) { set_name(plan.name); }

void SimulatedObject::changed() {
  ++changes_;
  all_ranks_.reset();
}

void SimulatedObject::update(const Sample& sample) {
  changed();
  take(total_, sample);
  if (batch_ && std::exchange(batch_is_taken_, false)) {
    batch_ = std::make_shared<Batch>();
    batch_->state = empty_state();
  }
  if (batch_) take(batch_->state, sample);
}

void SimulatedObject::take(MetricState& state, const Sample& sample) const {
  if (plan_.has_numbers) {
    state.numbers[0] += sample.value;
    state.numbers[1] = detail::combine(Reduce::kMin, state.numbers[1], sample.value);
  }
  if (plan_.row_lists > 0) append(state.rows[0], sample.value);
  if (plan_.row_lists > 1) append(state.rows[1], sample.factor);
  ++state.updates;
}

MetricState SimulatedObject::empty_state() const {
  MetricState state;
  if (plan_.has_numbers) state.numbers = {0, detail::identity(Reduce::kMin)};
  state.rows.resize(static_cast<std::size_t>(plan_.row_lists));
  return state;
}

void SimulatedObject::merge(MetricState& total, const MetricState& more) const {
  if (more.empty()) return;
  if (total.empty()) {
    total = more;
    return;
  }
  if (plan_.has_numbers) {
    total.numbers[0] += more.numbers[0];
    total.numbers[1] = detail::combine(Reduce::kMin, total.numbers[1], more.numbers[1]);
  }
  for (std::size_t list = 0; list < total.rows.size(); ++list) total.rows[list] += more.rows[list];
  total.updates += more.updates;
}

std::vector<double> SimulatedObject::values_of(const MetricState& state) const {
  if (fails_) throw std::runtime_error("unreadable on purpose");
  std::vector<double> values;
  if (plan_.has_numbers) values = state.numbers;
  if (plan_.row_lists == 0) return values;
  double ordered = 0;
  double paired = 0;
  for (std::size_t index = 0; index < state.rows[0].size() / sizeof(double); ++index) {
    const auto value = row<double>(state.rows[0], index);
    ordered += static_cast<double>(index + 1) * value;
    const bool has_factor = plan_.row_lists > 1 && (index + 1) * sizeof(std::int16_t) <= state.rows[1].size();
    if (has_factor) paired += row<std::int16_t>(state.rows[1], index) * value;
  }
  values.push_back(ordered);
  if (plan_.row_lists > 1) values.push_back(paired);
  return values;
}

std::vector<std::string> SimulatedObject::value_names(const std::string& name) const {
  std::vector<std::string> names;
  if (plan_.has_numbers) names = {name + "_sum", name + "_least"};
  if (plan_.row_lists > 0) names.push_back(name + "_ordered");
  if (plan_.row_lists > 1) names.push_back(name + "_paired");
  // As a metric of one number has it.
  if (names.size() == 1) names = {name};
  return names;
}

void SimulatedObject::set_state(MetricState state) {
  reset();
  total_ = std::move(state);
  batch_ = std::make_shared<Batch>();
  batch_->state = empty_state();
}

void SimulatedObject::reset() {
  changed();
  total_ = empty_state();
  batch_.reset();
  batch_is_taken_ = false;
}

std::shared_ptr<MetricStateReader> SimulatedObject::batch_state() {
  if (!batch_) {
    batch_ = std::make_shared<Batch>();
    batch_->state = total_;
  }
  batch_is_taken_ = true;
  return batch_;
}

}  // namespace levin::testing
