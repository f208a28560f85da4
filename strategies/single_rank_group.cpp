#include "levin/strategies/single_rank_group.h"

#include "levin/core/base/error_text.h"
#include "levin/strategies/processes/error_file.h"
#include "levin/strategies/reduce_op.h"

namespace levin {

at::Tensor SingleRankGroup::all_gather(const at::Tensor& tensor, SourceLocation) {
  return tensor.detach().unsqueeze(0).clone();
}

at::Tensor SingleRankGroup::all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) {
  check_reducible(parse_reduce_op(op, where), tensor, where);
  return tensor.detach().clone();
}

at::Tensor SingleRankGroup::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, 1, where);
  return tensor.detach().clone();
}

void SingleRankGroup::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  write_error_file({0, whereabouts, error_text(error)});
}

}  // namespace levin
