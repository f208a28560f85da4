#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace levin {

class Accelerator;

/// What this process computes on, for what has no Trainer at hand.
struct CurrentDevice {
  std::shared_ptr<const Accelerator> accelerator;
  at::Device device{at::kCPU};
};

/// Called: by Strategy::launch().
void set_current_device(CurrentDevice device);

}  // namespace levin
