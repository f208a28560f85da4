#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "levin/strategies/transport/combine_values.h"

namespace levin {

/// Throws MisuseError for a tensor that shared memory cannot take from the device on which it is.
void check_on_cpu(const at::Tensor& tensor);

/// A tensor on the CPU whose numbers lie one after the other: the given one, or a copy that takes its place at the end. Throws
/// MisuseError as check_on_cpu() does.
class ContiguousTensor {
 public:
  explicit ContiguousTensor(const at::Tensor& tensor);
  const at::Tensor& get() const { return contiguous_; }
  /// What get() holds becomes the given tensor's.
  void write_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor contiguous_;
};

/// The memory of a tensor whose numbers lie one after the other.
std::span<std::byte> bytes_of(const at::Tensor& contiguous);
/// Nothing for operations that levin does not make by itself.
std::optional<CombineOp> find_combine_op(const c10d::ReduceOp& op);
/// The same. Throws MisuseError for others.
CombineOp combine_op(const c10d::ReduceOp& op);
/// "broadcast of Float": a call, as others read it.
std::string call_text(const char* call, const at::Tensor& tensor);
/// "all_reduce(sum) of Float"
std::string call_text(const char* call, CombineOp op, const at::Tensor& tensor);

}  // namespace levin
