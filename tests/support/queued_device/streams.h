#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>

namespace levin::test::queued {

inline constexpr auto kType = c10::DeviceType::PrivateUse1;

/// How many devices this process sees: QUEUED_DEVICES, 1 by default, of which QUEUED_VISIBLE_DEVICES leaves some.
c10::DeviceIndex device_count();
/// Of the calling thread.
c10::Stream current_stream(c10::DeviceIndex device);

/// A generator of the CPU's for the next operator that draws on this device: of numbers that are this operator's alone, so that
/// what the host knows of the device's generator does not wait for the device.
at::Generator next_generator(const std::optional<at::Generator>& given, c10::DeviceIndex device);

}  // namespace levin::test::queued
