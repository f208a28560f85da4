#include "levin/core/rows/scalar_value.h"

namespace levin {

double scalar_value(const at::Tensor& value) {
  switch (value.scalar_type()) {
    case at::kFloat:
      return *value.const_data_ptr<float>();
    case at::kDouble:
      return *value.const_data_ptr<double>();
    case at::kLong:
      return static_cast<double>(*value.const_data_ptr<std::int64_t>());
    default:
      return value.item().toDouble();
  }
}

// A copy, since the user's tensor may be changed in place before the boundary at which it is read.
DeferredScalar::DeferredScalar(const at::Tensor& value) : value_(value.detach().clone()) {}

double DeferredScalar::read() { return value_.item().toDouble(); }

}  // namespace levin
