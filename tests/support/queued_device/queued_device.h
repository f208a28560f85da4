#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace levin::test {

/// A simulated kind of device, registered with LibTorch as a vendor's is (PrivateUse1): one, or as many as QUEUED_DEVICES says,
/// of which QUEUED_VISIBLE_DEVICES may leave some. Its memory is the host's, its kernels are the CPU's. Work waits in the queue
/// of a stream, and a thread does it as late as possible: when a caller waits for it, and then only that work and what events
/// tie to it. So a number that is read too early, memory that is reused too early, and a missing event are found each time.
/// With QUEUED_AT_ONCE it works at once, so that an error is reported where it arises. The accelerator is QueuedAccelerator.
struct QueuedDevice {
  /// The device to move tensors to.
  static c10::Device device(int index = 0) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

  /// The requests of all threads to all such devices since the program began.
  struct Counts {
    std::int64_t waits = 0;             ///< of the host for a device, those of blocking copies among them
    std::int64_t copies_to_device = 0;  ///< from the host
    std::int64_t copies_to_host = 0;
    std::int64_t copies_between = 0;      ///< from one device to another
    std::int64_t blocking_to_device = 0;  ///< those of the copies that were not asked to be non-blocking, or could not be
    std::int64_t blocking_to_host = 0;
    std::int64_t allocations = 0;  ///< of memory on a device, cached or not
    std::int64_t kernels = 0;
  };
  static Counts counts();

  /// Called with "copy", "stream" and its like at each wait, in the thread that waits; empty: nothing is. One at a time.
  static void on_wait(std::function<void(const char* what)> seen);

  /// True: streams other than the default one work as early as possible, before that one. This finds streams that do not wait
  /// for it; late work finds where it does not wait for them.
  static void others_first(bool now);

  /// Each call that waits throws an error of earlier work again, until this.
  static void forget_error();

  /// How many bytes all tensors of a device may have before it is out of memory. Default: no limit.
  static void limit_memory(std::int64_t bytes);
};

}  // namespace levin::test
