#pragma once

namespace levin {

/// Lets this process keep what training steps free on the CPU for the next ones: tensors of up to 4 MiB by CachingCpuAllocator,
/// and larger ones by the heap. By default glibc gives blocks above 128 KiB (or the largest that was freed so far), and the end
/// of its heap, back to the system, which clears each page of it anew when the next step asks: hundreds of page faults a step
/// for a model of moderate size. From the first call on it keeps blocks of up to 32 MiB, and 64 MiB of its heap's end: what
/// glibc comes to by itself once a program has freed a block of 32 MiB. Whoever sets MALLOC_MMAP_THRESHOLD_,
/// MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES' glibc.malloc keeps what they say, and LibTorch's own allocator.
void keep_memory_of_steps();

}  // namespace levin
