#pragma once

#include <c10/core/Device.h>

#include "levin/core/strategy.h"

namespace levin {

/// Throws ConfigError for an accelerator that is unknown.
bool wants_gpu(const LaunchRequest& request);

/// How many ranks a request wants on this host: one a device. Devices `auto` is 1; accelerator `auto` is the CPU.
/// Throws ConfigError for an accelerator that is unknown or not present, and for devices that do not exist.
int ranks_per_host(const LaunchRequest& request);

/// The device of the rank with this local rank. Throws as ranks_per_host does. A GPU becomes the current one of its thread.
c10::Device select_device(const LaunchRequest& request, int local_rank);

}  // namespace levin
