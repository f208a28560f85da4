#include "levin/core/engine/parts/heap_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <string_view>

namespace levin {

namespace {

constexpr int kLargestBlock = 32 << 20;  // glibc takes no more
constexpr int kKeptEnd = 64 << 20;

bool user_has_chosen() {
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return true;
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
}

}  // namespace

void keep_heap_memory() {
  // Where another allocator serves malloc, these change nothing.
  [[maybe_unused]] static const bool once = [] {
    if (user_has_chosen()) return false;
    mallopt(M_MMAP_THRESHOLD, kLargestBlock);
    return mallopt(M_TRIM_THRESHOLD, kKeptEnd) == 1;
  }();
}

}  // namespace levin
