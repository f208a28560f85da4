#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>

#include "levin/core/accelerator.h"

namespace levin::test::queued {

/// Memory of the current device, cached for later tensors of the stream that allocated it. Like CUDA's allocator it reuses
/// freed memory at once, since later work of the same stream runs later. Throws c10::OutOfMemoryError.
c10::Allocator& device_memory();
/// Another stream uses this memory: its work is done before the memory is reused.
void note_use(const c10::DataPtr& memory, const c10::Stream& stream);
std::int64_t allocations();
void limit_device_memory(std::int64_t bytes);
DeviceMemory memory_of(c10::DeviceIndex device);
/// Frees cached memory.
void give_memory_back(c10::DeviceIndex device);

/// Memory of the host that a device may copy from and to by itself.
c10::Allocator& pinned_memory();
/// The block of pinned memory that `data` points into, which lives at least as long; null: none.
std::shared_ptr<const void> pinned_block(const void* data);

}  // namespace levin::test::queued
