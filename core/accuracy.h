#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "levin/core/base/fwd.h"

namespace levin {

/// The share of samples whose label is the class with the highest score, or one of the `top_k` highest: a tensor of one number,
/// for log(). `scores`: [samples, classes, …], any numbers that grow with the class's chance; `labels`: [samples, …], the
/// classes' numbers. Throws MisuseError for other shapes, which would be compared with one another.
///
///     log("val_acc", levin::accuracy(net_->forward(batch["image"]), batch["label"]));
LEVIN_API at::Tensor accuracy(const at::Tensor& scores, const at::Tensor& labels, std::int64_t top_k = 1);

/// The same of two classes: the share of samples that are labelled 1 and have a score above `threshold`, or 0 and have not.
/// `scores` and `labels`: of one shape. Scores before a sigmoid have the threshold 0.
LEVIN_API at::Tensor binary_accuracy(const at::Tensor& scores, const at::Tensor& labels, double threshold = 0.5);

}  // namespace levin
