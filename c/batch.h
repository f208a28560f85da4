#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "levin/core/batch.h"
#include "levin/levin_c.h"

struct levin_batch {
  levin::Batch batch;
};

namespace levin::c {

/// The caller's memory as a tensor. Throws MisuseError for a shape or type that is none.
at::Tensor tensor_of(void* data, levin_dtype dtype, std::int32_t dimensions, const std::int64_t* shape,
                     const std::int64_t* strides);

/// Throws MisuseError unless `memory` has the shape of `tensor`. `name`: of the tensor.
void require_shape(const at::Tensor& memory, const at::Tensor& tensor, const char* name);

}  // namespace levin::c
