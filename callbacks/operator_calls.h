#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/fit_preview.h"

namespace levin {

/// A call of one of LibTorch's operators, which no other one has made.
struct OperatorCall {
  std::string name;  ///< "aten::linear"
  std::vector<c10::IValue> inputs;
  at::Tensor output;  ///< the first; undefined while the call lasts, and where it gives none
};

struct CrossEntropy {
  std::int64_t classes = 0;
  at::Tensor targets;  ///< integers
  std::int64_t ignored = -100;
  bool is_mean = true;
};

/// The loss of the first batch. `observe` gets each call before it begins and when it is done. LibTorch's modules have no hooks
/// that see activations.
at::Tensor observed_loss(FitPreview& preview, const std::function<void(const OperatorCall&)>& observe);

/// Unset for other operators, and for targets that are probabilities.
std::optional<CrossEntropy> cross_entropy_of(const OperatorCall& call);

}  // namespace levin
