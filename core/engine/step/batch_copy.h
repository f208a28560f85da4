#pragma once

#include "levin/core/batch.h"

namespace levin {

/// The batch on `device`, in no case the CPU. What is large is copied on a stream of its own, while the device still works on
/// what it has been given before; what it is given next waits for the copy. Does not wait, but for memory of the host that is
/// not page-locked. Called: by the training thread, on the stream that will use the batch.
Batch copied_beside_work(const Batch& batch, const at::Device& device);

}  // namespace levin
