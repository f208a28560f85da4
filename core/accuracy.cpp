#include "levin/core/accuracy.h"

#include <ATen/ATen.h>

#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

std::string shape(const at::Tensor& tensor) {
  return "[" + join(tensor.sizes(), ", ", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

}  // namespace

at::Tensor accuracy(const at::Tensor& scores, const at::Tensor& labels, std::int64_t top_k) {
  const bool fit = scores.dim() >= 2 && labels.dim() == scores.dim() - 1 && scores.select(1, 0).sizes() == labels.sizes();
  if (!fit) {
    throw MisuseError(
        format("accuracy() takes scores of the shape [samples, classes, …] and labels of [samples, …], got {} and {}.",
               shape(scores), shape(labels)));
  }
  if (top_k < 1 || top_k > scores.size(1)) {
    throw MisuseError(format("accuracy(): top_k is {}, and there are {} classes.", top_k, scores.size(1)));
  }
  const at::Tensor best = top_k == 1 ? scores.argmax(1, /*keepdim=*/true) : std::get<1>(scores.topk(top_k, 1));
  return best.eq(labels.unsqueeze(1)).any(1).to(at::kFloat).mean();
}

at::Tensor binary_accuracy(const at::Tensor& scores, const at::Tensor& labels, double threshold) {
  if (scores.sizes() != labels.sizes()) {
    throw MisuseError(
        format("binary_accuracy() takes scores and labels of one shape, got {} and {}.", shape(scores), shape(labels)));
  }
  return scores.gt(threshold).eq(labels.gt(0.5)).to(at::kFloat).mean();
}

}  // namespace levin
