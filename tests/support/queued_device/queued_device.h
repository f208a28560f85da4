#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace levin::test {

/// A kind of device that is not there, registered with LibTorch as a vendor's is (PrivateUse1): one, or as many as
/// QUEUED_DEVICES says, of which QUEUED_VISIBLE_DEVICES may leave some. Its memory is the host's, its kernels are the CPU's.
/// What a program asks of it waits in the queue of a stream, and a thread of its own does it as late as can be: when somebody
/// waits for it, and then only what this one asked for, and what events tie to it. So a number that is read too early, memory
/// that is used again too early, and an event that is missing are found each time. With QUEUED_AT_ONCE it works at once, so
/// that an error is told where it arises. The accelerator is QueuedAccelerator.
struct QueuedDevice {
  /// What tensors are moved to.
  static c10::Device device(int index = 0) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

  /// What all threads have asked of all such devices since the program began.
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

  /// True: what streams other than the default one are given they do as soon as they may, before what that one has to do. So
  /// they are found where they do not wait for it, as they are found late where it does not wait for them.
  static void others_first(bool now);

  /// An error that work ends with is thrown by each call that waits from then on, until this.
  static void forget_error();

  /// How many bytes all tensors of a device may have, beyond which it is out of memory. Default: as many as they want.
  static void limit_memory(std::int64_t bytes);
};

}  // namespace levin::test
