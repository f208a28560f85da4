#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace torch::nn {
class Sequential;
}

namespace levin {
namespace detail {

using Tensors = std::vector<at::Tensor>;
/// `buffers`: those that `body` may change, such as BatchNorm's statistics.
LEVIN_API Tensors checkpointed(std::function<Tensors(const Tensors&)> body, const Tensors& inputs, const Tensors& buffers);

template <class Result>
Tensors tensors_of(Result&& result) {
  using Plain = std::remove_cvref_t<Result>;
  if constexpr (std::same_as<Plain, at::Tensor>) {
    return {std::forward<Result>(result)};
  } else if constexpr (std::same_as<Plain, Tensors>) {
    return std::forward<Result>(result);
  } else {
    return std::apply([](auto&&... each) { return Tensors{std::forward<decltype(each)>(each)...}; },
                      std::forward<Result>(result));
  }
}

template <class Result>
Result result_of(Tensors tensors) {
  if constexpr (std::same_as<Result, at::Tensor>) {
    return std::move(tensors.front());
  } else if constexpr (std::same_as<Result, Tensors>) {
    return tensors;
  } else {
    return [&]<std::size_t... index>(std::index_sequence<index...>) { return Result{std::move(tensors[index])...}; }
    (std::make_index_sequence<std::tuple_size_v<Result>>());
  }
}

}  // namespace detail

/// function(inputs…), storing only inputs and results: the backward pass recomputes the rest (Chen et al. 2016, "Training deep
/// nets with sublinear memory cost"). It costs a second forward pass of this part, and the gradients are the same to the bit:
/// random numbers (the CPU's, the run's device's and levin's own generators) and autocast repeat the first pass.
///
///     x = levin::checkpointed(block_, x);                                                  // a module
///     x = levin::checkpointed([this](const at::Tensor& x) { return blend(x, 0.5); }, x);   // any function
///
/// `function`: a torch module (such as torch::nn::Sequential, or your own holder), whose buffers change once, or a function,
/// which must not change buffers and must not log. It returns a tensor, or a vector, tuple, pair or array of them, and lives
/// until the backward pass. It may use parameters and other checkpointed() parts. Throws MisuseError when it uses a tensor that
/// was computed outside and is not an input, or changes an input in place, and for gradients of gradients. Works with several
/// ranks, precisions and accumulation. A step with such parts is not recorded as a CUDA graph.
template <class Function, std::convertible_to<at::Tensor>... Inputs>
auto checkpointed(Function function, const Inputs&... inputs) {
  constexpr bool is_module = requires { function.ptr()->buffers(); };
  detail::Tensors buffers;
  if constexpr (is_module) buffers = function.ptr()->buffers();
  auto call = [function = std::move(function)](const auto&... given) mutable {
    if constexpr (is_module) {
      return function->forward(given...);
    } else {
      return function(given...);
    }
  };
  using Result = decltype(call(at::Tensor(inputs)...));
  const auto body = [call = std::move(call)](const detail::Tensors& given) mutable {
    return [&]<std::size_t... index>(std::index_sequence<index...>) { return detail::tensors_of(call(given[index]...)); }
    (std::index_sequence_for<Inputs...>());
  };
  return detail::result_of<Result>(detail::checkpointed(body, {inputs...}, buffers));
}

/// layers->forward(input), with the layers divided into `segments` parts of equal length, of which all but the last are
/// checkpointed(). With n layers and sqrt(n) segments, memory grows as sqrt(n). Each layer maps one tensor to one tensor.
/// Throws MisuseError unless 1 ≤ segments ≤ layers.
LEVIN_API at::Tensor checkpointed_sequential(const torch::nn::Sequential& layers, std::int64_t segments,
                                             const at::Tensor& input);

}  // namespace levin
