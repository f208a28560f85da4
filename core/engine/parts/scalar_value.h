#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>

#include "levin/core/protocol/metric_table.h"

namespace levin {

/// The number in a CPU tensor of one element. Reads common types in place, without the dispatcher.
double scalar_value(const at::Tensor& value);

/// A number that is still on a GPU.
class DeferredScalar final : public DeferredValue {
 public:
  /// `value` has one element.
  explicit DeferredScalar(const at::Tensor& value) : value_(value.detach().reshape({})) {}
  double read() override;
  std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce, double weight,
                                          double so_far) override;
  // The user's tensor may be changed in place before it is read.
  void keep() override { value_ = value_.clone(); }
  void read_with(std::span<DeferredValue* const> values) override;

 private:
  at::Tensor value_;
  std::optional<double> number_;  ///< once it has been read
};

}  // namespace levin
