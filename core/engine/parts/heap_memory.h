#pragma once

namespace levin {

/// Has glibc's malloc keep what training steps free for the next ones. By default it gives blocks above 128 KiB (or the largest
/// that was freed so far), and the end of its heap, back to the system, which clears each page of it anew when the next step
/// asks: hundreds of page faults a step for a model of moderate size. From here on it keeps blocks of up to 32 MiB, and 64 MiB
/// of its heap's end: what it comes to by itself once a program has freed a block of 32 MiB. It knows no way back. Whoever sets
/// MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES' glibc.malloc keeps what they say. Threading: any.
void keep_heap_memory();

}  // namespace levin
