#pragma once

namespace levin {

/// While one lives, this process keeps what training steps free on the CPU for the next ones: tensors of up to 4 MiB by
/// CachingCpuAllocator, and larger ones by the heap. By default glibc gives blocks above 128 KiB (or the largest that was freed
/// so far), and the end of its heap, back to the system, which clears each page of it anew when the next step asks: hundreds of
/// page faults a step for a model of moderate size. From the first of these on it keeps blocks of up to 32 MiB, and 64 MiB of
/// its heap's end: what glibc comes to by itself once a program has freed a block of 32 MiB; it knows no way back. LibTorch's
/// allocator returns with the end of the last. Whoever sets MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES'
/// glibc.malloc keeps what they say, and LibTorch's own allocator. Threading: any.
class KeptMemory {
 public:
  KeptMemory();
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
};

}  // namespace levin
