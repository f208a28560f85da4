#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace levin::test::queued {

inline bool is_here(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

/// A tensor on a device, whose memory is taken on its current stream.
at::Tensor empty_strided_on(const c10::Device& device, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// The memory of a device's tensor as a tensor of the host's, for work in a queue: it does not keep it.
at::Tensor seen_by_host(const at::Tensor& tensor);

/// What operators have been given to devices, all of them together.
std::int64_t kernels_given();

}  // namespace levin::test::queued
