#pragma once

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/core/run_check.h"

namespace levin {

/// A call of one of LibTorch's operators, which no other one has made.
struct OperatorCall {
  std::string name;  ///< "aten::linear"
  std::vector<c10::IValue> inputs;
  at::Tensor output;  ///< the first; undefined while the call lasts, and where it gives none
};

/// The loss; `observe` is told of each call before it begins and when it is done. LibTorch's modules have no hooks that see
/// activations.
at::Tensor observed_loss(FitPreview& preview, const std::function<void(const OperatorCall&)>& observe);

struct CrossEntropy {
  std::int64_t classes = 0;
  at::Tensor targets;  ///< integers
  std::int64_t ignored = -100;
  bool is_mean = true;
};

/// Unset for other operators, and for targets that are probabilities.
std::optional<CrossEntropy> cross_entropy_of(const OperatorCall& call);

/// Options and decisions that checks have in common.
template <class O>
class CheckWithOptions : public WithOptions<RunCheck, O> {
 protected:
  using WithOptions<RunCheck, O>::WithOptions;
  bool finding_is_error() const override { return this->options_.fail == OnDifference::kError; }
  bool is_ignored(const std::string& name) const {
    return std::ranges::any_of(this->options_.ignore, [&](const std::string& part) { return name.starts_with(part); });
  }
};

}  // namespace levin
