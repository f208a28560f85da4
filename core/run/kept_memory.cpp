#include "levin/core/run/kept_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "levin/core/run/caching_cpu_allocator.h"

namespace levin {
namespace {

constexpr int kLargestBlockOfHeap = 32 << 20;  // glibc takes no more
constexpr int kKeptEndOfHeap = 64 << 20;

bool user_has_chosen() {
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return true;
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
}

}  // namespace

void keep_memory_of_steps() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (user_has_chosen()) return;
    // Where another allocator serves malloc, these change nothing.
    mallopt(M_MMAP_THRESHOLD, kLargestBlockOfHeap);
    mallopt(M_TRIM_THRESHOLD, kKeptEndOfHeap);
#if !defined(__SANITIZE_ADDRESS__)  // which would not see a tensor that is used after it was freed
    CachingCpuAllocator::install();
#endif
  });
}

}  // namespace levin
