#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace levin::test {

/// A device of LibTorch's that is not there: its tensors lie in the CPU's memory, and the CPU computes for it, at once. It
/// counts how often somebody would have to wait for it: whenever a number goes from it to the host.
struct CountingDevice {
  /// What tensors are moved to.
  static c10::Device device() { return {c10::DeviceType::MTIA, 0}; }
  static std::int64_t waits();
};

}  // namespace levin::test
