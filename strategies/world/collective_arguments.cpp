#include "levin/strategies/world/collective_arguments.h"

#include <c10/util/Exception.h>

#include <filesystem>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

[[noreturn]] void refuse(SourceLocation where, const std::string& why) {
  throw MisuseError(call_site_text(where) + ": " + why);
}

}  // namespace

std::string call_site_text(SourceLocation where) {
  return format("{}:{}", std::filesystem::path(where.file_name()).filename(), where.line());
}

Reduce parse_reduce_op(const std::string& name, SourceLocation where) {
  if (name == "mean" || name == "avg") return Reduce::kMean;
  if (name == "sum") return Reduce::kSum;
  if (name == "min") return Reduce::kMin;
  if (name == "max") return Reduce::kMax;
  refuse(where, "all_reduce does not know '" + name + "': use mean, sum, min or max");
}

void check_reducible(Reduce op, const at::Tensor& tensor, SourceLocation where) {
  if (!tensor.defined()) {
    refuse(where, "all_reduce got a tensor without a value: a gradient, perhaps, of a parameter that the loss does not use");
  }
  if (tensor.is_complex() && (op == Reduce::kMin || op == Reduce::kMax)) {
    refuse(where, "all_reduce has no min or max of complex numbers, which have no order");
  }
  if (op != Reduce::kMean || c10::isFloatingType(tensor.scalar_type()) || c10::isComplexType(tensor.scalar_type())) return;
  refuse(where, format("all_reduce cannot take the mean of a tensor of {}; convert it to a floating type, or use sum",
                       c10::toString(tensor.scalar_type())));
}

void check_source_rank(int source_rank, int world_size, SourceLocation where) {
  if (source_rank >= 0 && source_rank < world_size) return;
  refuse(where, format("broadcast from rank {}, but there are only ranks 0 to {}", source_rank, world_size - 1));
}

}  // namespace levin
