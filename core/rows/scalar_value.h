#pragma once

#include <ATen/core/Tensor.h>

#include "levin/core/protocol/metric_store.h"

namespace levin {

/// The number in a CPU tensor of one element. Reads common types in place, without the dispatcher.
double scalar_value(const at::Tensor& value);

/// A number that is still on a GPU.
class DeferredScalar final : public DeferredValue {
 public:
  explicit DeferredScalar(const at::Tensor& value);
  double read() override;

 private:
  at::Tensor value_;
};

}  // namespace levin
