#include "levin/core/run/kept_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "levin/core/base/own_process.h"
#include "levin/core/run/caching_cpu_allocator.h"

namespace levin {
namespace {

constexpr int kLargestBlockOfHeap = 32 << 20;  // glibc takes no more
constexpr int kKeptEndOfHeap = 64 << 20;

std::mutex users_mutex;
int users = 0;

bool user_has_chosen() {
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return true;
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
}

void keep_heap() {
  // Where another allocator serves malloc, these change nothing.
  [[maybe_unused]] static const bool once = [] {
    mallopt(M_MMAP_THRESHOLD, kLargestBlockOfHeap);
    return mallopt(M_TRIM_THRESHOLD, kKeptEndOfHeap) == 1;
  }();
}

}  // namespace

KeptMemory::KeptMemory() {
  static const bool has_chosen = user_has_chosen();
  const std::lock_guard lock(users_mutex);
  if (users++ > 0 || has_chosen) return;
  keep_heap();
#if !defined(__SANITIZE_ADDRESS__)  // which would not see a tensor that is used after it was freed
  CachingCpuAllocator::install();
#endif
}

KeptMemory::~KeptMemory() {
  const std::lock_guard lock(users_mutex);
  // In a process of levin's own there will be more runs, or nothing.
  if (--users > 0 || OwnProcess::is_one()) return;
  CachingCpuAllocator::uninstall();
}

}  // namespace levin
