#include "levin/core/protocol/object_batch.h"

#include <optional>
#include <span>

#include "levin/core/base/error.h"

namespace levin::detail {

namespace {

struct Batch {
  const MetricEntry& entry;
  std::shared_ptr<MetricStateReader> state;
  std::vector<double> values;
};

class BatchValue final : public DeferredValue {
 public:
  BatchValue(std::shared_ptr<Batch> batch, std::size_t index) : batch_(std::move(batch)), index_(index) {}
  double read() override {
    if (batch_->values.empty()) batch_->values = batch_->entry.values_of(batch_->state->read());
    return batch_->values.at(index_);
  }
  std::optional<double> known() override {
    return !batch_->values.empty() || batch_->state->is_there() ? std::optional(read()) : std::nullopt;
  }
  void send_for(std::span<DeferredValue* const>) override { batch_->state->send(); }
  std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>&, Reduce, double, double) override {
    throw MisuseError("the value of a metric object is not added up: its state is");
  }

 private:
  std::shared_ptr<Batch> batch_;
  std::size_t index_;
};

}  // namespace

std::vector<std::shared_ptr<DeferredValue>> batch_values(const MetricEntry& entry) {
  const auto batch = std::make_shared<Batch>(Batch{entry, entry.step_state, {}});
  std::vector<std::shared_ptr<DeferredValue>> values;
  for (std::size_t index = 0; index < entry.values.size(); ++index)
    values.push_back(std::make_shared<BatchValue>(batch, index));
  return values;
}

}  // namespace levin::detail
