#include "levin/strategies/transport/tensor_values.h"

#include <ATen/core/Tensor.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

void check_on_cpu(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return;
  throw MisuseError(format("a tensor on {} cannot travel through shared memory", tensor.device().str()));
}

ContiguousTensor::ContiguousTensor(const at::Tensor& tensor) : tensor_(tensor), contiguous_(tensor.contiguous()) {
  check_on_cpu(tensor);
}

void ContiguousTensor::write_back() const {
  if (!contiguous_.is_same(tensor_)) tensor_.copy_(contiguous_);
}

std::span<std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()};
}

std::optional<CombineOp> find_combine_op(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return CombineOp::kSum;
    case c10d::ReduceOp::AVG:
      return CombineOp::kAverage;
    case c10d::ReduceOp::PRODUCT:
      return CombineOp::kProduct;
    case c10d::ReduceOp::MIN:
      return CombineOp::kMin;
    case c10d::ReduceOp::MAX:
      return CombineOp::kMax;
    default:
      return std::nullopt;
  }
}

CombineOp combine_op(const c10d::ReduceOp& op) {
  if (const auto found = find_combine_op(op)) return *found;
  throw MisuseError("values travel through shared memory to be summed, averaged, multiplied, or for their minimum or maximum");
}

std::string call_text(const char* call, const at::Tensor& tensor) {
  return format("{} of {}", call, c10::toString(tensor.scalar_type()));
}

std::string call_text(const char* call, CombineOp op, const at::Tensor& tensor) {
  return format("{}({}) of {}", call, combine_op_name(op), c10::toString(tensor.scalar_type()));
}

}  // namespace levin
