#include <memory>

#include "levin/core/protocol/metric_store.h"
#include "levin/core/protocol/slot.h"

namespace levin {

namespace {

class ReadyValue final : public DeferredValue {
 public:
  explicit ReadyValue(double value) : value_(value) {}
  double read() override { return value_; }

 private:
  double value_;
};

}  // namespace

DeferredValue::~DeferredValue() = default;

std::shared_ptr<DeferredValue> DeferredValue::added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce,
                                                       double weight) {
  const double so_far = total ? total->read() : detail::identity(reduce);
  const double value = reduce == Reduce::kMean ? weight * read() : read();
  return std::make_shared<ReadyValue>(detail::combine(reduce, so_far, value));
}

}  // namespace levin
