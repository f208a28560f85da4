#include "levin/core/protocol/exchanged_metric.h"

#include <algorithm>

namespace levin::detail {

bool ExchangedMetric::any_present() const {
  return std::ranges::any_of(payloads, [](const MetricPayload& of_rank) { return of_rank.slot.present(); });
}

void ExchangedMetric::clear_payload() {
  own = {};
  own_rows = nullptr;
}

void ExchangedMetric::send_for_state() const {
  if (entry->object == nullptr) return;
  if (level == Level::kEpoch) return entry->object->send();
  if (entry->step_state) entry->step_state->send();
}

void ExchangedMetric::make_payload(BoundaryKind kind) {
  clear_payload();
  const bool is_step = level == Level::kStep;
  const bool is_new = !is_step || (kind == BoundaryKind::kTrainStep ? entry->step_is_new : entry->step_is_unshared);
  const Slot& slot = is_step ? entry->step : entry->epoch;
  const bool is_sent = is_new && slot.present();
  if (!entry->is_of_object()) {
    if (is_sent) own.slot = slot;
    return;
  }
  const bool has_state = entry->object != nullptr && (!is_step || entry->step_state != nullptr);
  // A rank without new values has sent all.
  const bool knows_rows =
      !is_step && entry->all_ranks != nullptr && (!is_sent || (has_state && entry->sent_changes == entry->object->changes()));
  if (!is_sent || !has_state) {
    own.slot = object_slot(/*is_logged=*/false, 0, knows_rows);
    return;
  }
  const MetricState& state = is_step ? entry->step_state->read() : entry->object->state();
  own.slot = object_slot(/*is_logged=*/true, state.updates, knows_rows);
  own.numbers = state.numbers;
  for (const std::string& rows : state.rows) own.numbers.push_back(static_cast<double>(rows.size()));
  const std::vector<double> values = entry->values_of(state);
  own.numbers.insert(own.numbers.end(), values.begin(), values.end());
  own_rows = &state.rows;
}

}  // namespace levin::detail
