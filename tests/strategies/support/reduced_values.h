#pragma once

#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <tuple>
#include <vector>

namespace levin::test {

using Backend = c10::intrusive_ptr<c10d::Backend>;

/// A rank's contribution: the same on every rank that asks.
inline at::Tensor given(int rank, at::ScalarType type, std::int64_t size) {
  const at::Tensor numbers = torch::arange(size, torch::kDouble).mul_(7).add_(rank * 13).fmod_(11).sub_(3);
  return c10::isFloatingType(type) ? numbers.div_(8).to(type) : numbers.abs_().to(type);
}

/// The result of all ranks' contributions.
inline at::Tensor expected(c10d::ReduceOp::RedOpType op, int ranks, at::ScalarType type, std::int64_t size) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(given(rank, type, size).to(torch::kDouble));
  const at::Tensor rows = torch::stack(all);
  switch (op) {
    case c10d::ReduceOp::AVG:
      return rows.mean(0).to(type);
    case c10d::ReduceOp::PRODUCT:
      return rows.prod(0).to(type);
    case c10d::ReduceOp::MIN:
      return std::get<0>(rows.min(0)).to(type);
    case c10d::ReduceOp::MAX:
      return std::get<0>(rows.max(0)).to(type);
    default:
      return rows.sum(0).to(type);
  }
}

inline at::Tensor all_reduced(Backend& backend, const at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  backend->allreduce(tensors, options)->wait();
  return tensors[0];
}

/// Throws what a backend reduces otherwise than numbers of 64 bits would be, of each type, operation and size, in words.
/// `tolerance`: of a type that has fractions.
inline void check_reductions(Backend& backend, const std::vector<std::int64_t>& sizes, double (*tolerance)(at::ScalarType)) {
  using Op = c10d::ReduceOp;
  std::string wrong;
  for (const at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kByte, torch::kChar,
                                    torch::kShort, torch::kInt, torch::kLong, torch::kBool}) {
    for (const Op::RedOpType op : {Op::SUM, Op::AVG, Op::PRODUCT, Op::MIN, Op::MAX}) {
      if (op == Op::AVG && !c10::isFloatingType(type)) continue;
      for (const std::int64_t size : sizes) {
        const at::Tensor result = all_reduced(backend, given(backend->getRank(), type, size), op);
        const at::Tensor wanted = expected(op, backend->getSize(), type, size);
        const double most = c10::isFloatingType(type) ? tolerance(type) : 0;
        const bool same =
            result.scalar_type() == type && torch::allclose(result.to(torch::kDouble), wanted.to(torch::kDouble), most, most);
        if (!same)
          wrong += std::string(c10::toString(type)) + ", operation " + std::to_string(op) + ", " + std::to_string(size) + "\n";
      }
    }
  }
  if (!wrong.empty()) throw std::runtime_error(wrong);
}

}  // namespace levin::test
