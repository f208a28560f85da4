#include "levin/core/protocol/deferred_value.h"

#include <algorithm>

namespace levin {

void DeferredValue::read_with(std::span<DeferredValue* const>) {}

void DeferredValues::read() {
  std::sort(values_.begin(), values_.end());
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  if (values_.size() > 1) values_.front()->read_with(values_);
}

}  // namespace levin
