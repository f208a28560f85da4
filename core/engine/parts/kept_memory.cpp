#include "levin/core/engine/parts/kept_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/own_process.h"

namespace levin {
namespace {

constexpr std::size_t kUnitBytes = 64;  // what LibTorch aligns tensors to
constexpr std::size_t kUnits = 8;       // sizes up to 512 bytes are multiples of one
constexpr std::size_t kStepsOfDoubling = 8;
constexpr int kFirstDoubling = static_cast<int>(std::bit_width(kUnits * kUnitBytes)) - 1;

struct SizeClass {
  std::uint32_t index;
  std::size_t bytes;  ///< of its blocks
};

/// The smallest class whose blocks have room for that many bytes, at least one.
constexpr SizeClass size_class_of(std::size_t bytes) {
  if (bytes <= kUnits * kUnitBytes) {
    const std::size_t units = (bytes + kUnitBytes - 1) / kUnitBytes;
    return {static_cast<std::uint32_t>(units - 1), units * kUnitBytes};
  }
  const int doubling = static_cast<int>(std::bit_width(bytes - 1)) - 1;
  const std::size_t base = std::size_t{1} << doubling;
  const std::size_t step = base / kStepsOfDoubling;
  const std::size_t steps = (bytes - base + step - 1) / step;
  const std::size_t before = kUnits + static_cast<std::size_t>(doubling - kFirstDoubling) * kStepsOfDoubling;
  return {static_cast<std::uint32_t>(before + steps - 1), base + steps * step};
}

constexpr std::size_t kClasses = size_class_of(CachingCpuAllocator::kLargestBlock).index + 1;
constexpr std::uint32_t kNoClass = kClasses;

/// What lies before the memory of a tensor.
struct alignas(kUnitBytes) Block {
  Block* next;  ///< in a list
  std::size_t bytes;
  std::uint32_t size_class;  ///< kNoClass: never kept
};

class ThreadCache;

/// The caches of all threads, to be counted.
struct Caches {
  static Caches& instance() {
    static auto* const caches = new Caches;
    return *caches;
  }
  std::mutex mutex;
  std::vector<const ThreadCache*> all;
};

class ThreadCache {
 public:
  ThreadCache() {
    Caches& caches = Caches::instance();
    const std::lock_guard lock(caches.mutex);
    caches.all.push_back(this);
  }
  ~ThreadCache() {
    clear();
    Caches& caches = Caches::instance();
    const std::lock_guard lock(caches.mutex);
    std::erase(caches.all, this);
  }
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  /// Null: none is kept.
  Block* take(std::uint32_t size_class) {
    List& list = lists_[size_class];
    if (list.first == nullptr) return nullptr;
    Block* const block = std::exchange(list.first, list.first->next);
    list.bytes -= block->bytes;
    count(bytes() - block->bytes);
    return block;
  }
  /// False: there is no room for another of its size.
  bool keep(Block* block) {
    List& list = lists_[block->size_class];
    if (list.bytes + block->bytes > CachingCpuAllocator::kMostKeptOfSize) return false;
    if (bytes() + block->bytes > CachingCpuAllocator::kMostKept) clear();
    block->next = std::exchange(list.first, block);
    list.bytes += block->bytes;
    count(bytes() + block->bytes);
    return true;
  }
  void clear() {
    for (List& list : lists_) {
      while (list.first != nullptr) c10::free_cpu(std::exchange(list.first, list.first->next));
      list.bytes = 0;
    }
    count(0);
  }
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct List {
    Block* first = nullptr;
    std::size_t bytes = 0;
  };

  /// Written by this thread alone: not an addition, which would be a locked one.
  void count(std::size_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }

  std::array<List, kClasses> lists_;
  std::atomic<std::size_t> bytes_ = 0;  ///< kept; others read it
};

/// A thread's cache while the thread runs. This object itself may be used for longer: tensors are freed after it.
struct CacheOfThread {
  ThreadCache* cache = nullptr;
  bool has_ended = false;
};
thread_local constinit CacheOfThread of_thread;

struct CacheOwner {
  CacheOwner() { of_thread.cache = new ThreadCache; }
  ~CacheOwner() {
    delete std::exchange(of_thread.cache, nullptr);
    of_thread.has_ended = true;
  }
  CacheOwner(const CacheOwner&) = delete;
  CacheOwner& operator=(const CacheOwner&) = delete;
};

/// Null when the thread is about to end.
ThreadCache* cache_of_this_thread() {
  if (of_thread.cache != nullptr || of_thread.has_ended) return of_thread.cache;
  static thread_local const CacheOwner owner;
  return of_thread.cache;
}

Block* make_block(std::size_t bytes) {
  if (bytes > CachingCpuAllocator::kLargestBlock) {
    // LibTorch's own error for a size that cannot be, also where the sum is none.
    auto* const block = static_cast<Block*>(c10::alloc_cpu(std::max(bytes, bytes + sizeof(Block))));
    block->size_class = kNoClass;
    return block;
  }
  const SizeClass size_class = size_class_of(bytes);
  ThreadCache* const cache = cache_of_this_thread();
  if (Block* const kept = cache != nullptr ? cache->take(size_class.index) : nullptr) return kept;
  auto* const block = static_cast<Block*>(c10::alloc_cpu(size_class.bytes + sizeof(Block)));
  block->size_class = size_class.index;
  block->bytes = size_class.bytes;
  return block;
}

void free_memory(void* memory) {
  if (memory == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(memory);
  Block* const block = static_cast<Block*>(memory) - 1;
  ThreadCache* const cache = block->size_class == kNoClass ? nullptr : cache_of_this_thread();
  if (cache == nullptr || !cache->keep(block)) c10::free_cpu(block);
}

}  // namespace

CachingCpuAllocator& CachingCpuAllocator::instance() {
  static auto* const allocator = new CachingCpuAllocator;
  return *allocator;
}

void CachingCpuAllocator::install() {
  if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator()) c10::SetCPUAllocator(&instance());
}

void CachingCpuAllocator::uninstall() {
  if (c10::GetCPUAllocator() == &instance()) c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
  clear_this_thread();
}

c10::DataPtr CachingCpuAllocator::allocate(std::size_t bytes) {
  void* const memory = bytes == 0 ? nullptr : make_block(bytes) + 1;
  c10::profiledCPUMemoryReporter().New(memory, bytes);
  return {memory, memory, &free_memory, c10::Device(c10::kCPU)};
}

c10::DeleterFnPtr CachingCpuAllocator::raw_deleter() const { return &free_memory; }

void CachingCpuAllocator::copy_data(void* target, const void* source, std::size_t bytes) const {
  default_copy_data(target, source, bytes);
}

void CachingCpuAllocator::clear_this_thread() {
  if (of_thread.cache != nullptr) of_thread.cache->clear();
}

std::size_t CachingCpuAllocator::kept_bytes() {
  Caches& caches = Caches::instance();
  const std::lock_guard lock(caches.mutex);
  std::size_t bytes = 0;
  for (const ThreadCache* cache : caches.all) bytes += cache->bytes();
  return bytes;
}

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
