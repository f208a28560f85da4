#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "levin/core/base/error.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

/// Collectives that users call. Ranks first meet over the control group and say which call this is: operation, call site, shape
/// and type must be the same, and every rank gets the same DesyncError when they are not. Only then data moves: small tensors
/// over the control group, large ones over the process group.
class UserCollectives {
 public:
  /// Up to this size a tensor travels over the control group, which answers within microseconds.
  static constexpr std::size_t kSmallBytes = 32 * 1024;

  explicit UserCollectives(ProcessWorld& world) : world_(world) {}

  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where);
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where);
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where);
  void barrier(const std::string& what, SourceLocation where);

 private:
  at::Tensor gather(const at::Tensor& tensor, const std::string& what);
  void agree(const at::Tensor& tensor, std::int64_t detail, const std::string& what);

  ProcessWorld& world_;
};

}  // namespace levin
