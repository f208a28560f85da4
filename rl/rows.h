#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// A tensor in an error message: "[8, 4] Float".
std::string form_of_rows(const at::Tensor& tensor);

/// The number of rows that all tensors of a batch have. Throws MisuseError, which begins with `what`, for a batch without
/// tensors or rows, a tensor without a name or with a dot in it, and for different numbers of rows.
std::int64_t rows_of(const Batch& batch, const char* what);

/// Throws MisuseError, which names the tensor and both forms, unless `given` is like `stored` but for the first dimension.
void check_rows(const at::Tensor& given, const at::Tensor& stored, const std::string& name, const char* what);

}  // namespace levin
