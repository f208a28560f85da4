#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace levin {

/// Memory of tensors on the CPU that is kept, once freed, for later ones of about the same size, as LibTorch's own allocators
/// do for GPUs. Each thread has lists of what it has freed, last freed first: a training step finds what the one before has
/// used, much of it still in the processor's caches, without a lock, a search through the heap, or a page that has to be
/// cleared. Sizes are rounded up to one of eight steps between powers of two.
///
/// Threading: any. Memory goes to the list of the thread that frees it, and back to the heap when that thread ends. What comes
/// and goes is told to LibTorch's profiler as its default allocator does.
class CachingCpuAllocator final : public c10::Allocator {
 public:
  /// Larger blocks are taken from the heap, and given back, each time.
  static constexpr std::size_t kLargestBlock = std::size_t{4} << 20;
  /// What a thread keeps at most. One that would keep more begins anew with nothing.
  static constexpr std::size_t kMostKept = std::size_t{32} << 20;
  /// Of one size: batches that other threads make, and this one frees, do not take the place of all else.
  static constexpr std::size_t kMostKeptOfSize = kMostKept / 2;

  /// Never destroyed: tensors may be freed when static objects have gone.
  static CachingCpuAllocator& instance();
  /// Has LibTorch take the memory of tensors from here, unless another allocator than its own has been chosen.
  static void install();
  /// Has it take that memory from its own allocator again, if it was taken from here, and gives back to the heap what the
  /// calling thread keeps.
  static void uninstall();

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* target, const void* source, std::size_t bytes) const override;

  /// Gives back to the heap what the calling thread keeps.
  static void clear_this_thread();
  /// What all threads keep, in bytes.
  static std::size_t kept_bytes();
};

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
