#pragma once

#include <cstdint>

/// How often a process has called CUDA since it began, as libgpu_calls.so counts it, which LD_PRELOAD puts before CUDA's
/// runtime.
struct CudaCalls {
  std::int64_t waits = 0;           ///< for a stream, an event or the whole device
  std::int64_t copies_to_host = 0;  ///< of which those into memory that is not page-locked wait
  std::int64_t copies_to_device = 0;
  std::int64_t allocations = 0;  ///< of the device's memory, or of page-locked memory
};
using CudaCallsFunction = void (*)(CudaCalls* calls);
