#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "levin/core/accelerator.h"
#include "levin/core/batch.h"

namespace levin {

/// What the calling thread gives a device its work through.
inline c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// A copy of a device's tensor on the CPU, which is there once the device's current stream has come so far. Does not wait,
/// where LibTorch has page-locked memory for this kind of device.
inline at::Tensor sent_to_host(const at::Tensor& on_device) {
  return at::empty(on_device.sizes(), host_options(on_device)).copy_(on_device, /*non_blocking=*/true);
}

/// The batch on `device`, in no case the CPU. What is large is copied on a stream of its own, while the device still works on
/// what it has been given before; what it is given next waits for the copy. Does not wait, but for memory of the host that is
/// not page-locked. Called: by the training thread, on the stream that will use the batch.
Batch copied_beside_work(const Batch& batch, const at::Device& device);

}  // namespace levin
