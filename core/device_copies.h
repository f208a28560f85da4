#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "levin/core/accelerator.h"
#include "levin/core/batch.h"

namespace levin {

/// The stream on which the calling thread queues a device's work.
inline c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// A CPU copy of a device's tensor, valid once the device's current stream has reached the copy. Does not wait where LibTorch
/// has page-locked memory for this kind of device.
inline at::Tensor sent_to_host(const at::Tensor& on_device) {
  return at::empty(on_device.sizes(), host_options(on_device)).copy_(on_device, /*non_blocking=*/true);
}

/// The batch on `device`, which is not the CPU. Large tensors are copied on a separate stream while the device continues
/// earlier work; later work waits for the copy. Waits only for host memory that is not page-locked. Called: by the training
/// thread, on the stream that will use the batch.
Batch copied_beside_work(const Batch& batch, const at::Device& device);

}  // namespace levin
