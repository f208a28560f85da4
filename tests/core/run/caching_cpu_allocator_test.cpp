#include "levin/core/engine/parts/kept_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "levin/core/accelerator.h"

using namespace levin;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

c10::DataPtr allocate(std::size_t bytes) { return CachingCpuAllocator::instance().allocate(bytes); }

/// What all threads keep, when this one keeps nothing.
std::size_t kept_by_others() {
  CachingCpuAllocator::clear_this_thread();
  return CachingCpuAllocator::kept_bytes();
}

/// Memory whose bytes all say whose it is.
struct Marked {
  Marked(std::size_t size, unsigned char mark) : memory(allocate(size)), bytes(size), value(mark) {
    if (size > 0) std::memset(memory.get(), value, bytes);
  }
  bool is_whole() const {
    const auto* const first = static_cast<const unsigned char*>(memory.get());
    return std::all_of(first, first + bytes, [this](unsigned char byte) { return byte == value; });
  }
  c10::DataPtr memory;
  std::size_t bytes;
  unsigned char value;
};

/// Blocks that threads leave to one another.
struct Exchange {
  std::mutex mutex;
  std::vector<Marked> blocks;
  int wrong = 0;
};

void take_and_leave(Exchange& exchange, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Marked> own;
  int wrong = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t most = std::size_t{1} << (random() % (step % 100 == 0 ? 24 : 16));
    own.emplace_back(random() % most, static_cast<unsigned char>(random()));
    wrong += reinterpret_cast<std::uintptr_t>(own.back().memory.get()) % 64 != 0;
    std::swap(own.back(), own[random() % own.size()]);
    if (own.size() > 20) {
      const std::lock_guard lock(exchange.mutex);
      exchange.blocks.push_back(std::move(own.back()));
      own.pop_back();
      std::swap(exchange.blocks.back(), exchange.blocks[random() % exchange.blocks.size()]);
      if (exchange.blocks.size() > 20) {
        wrong += !exchange.blocks.back().is_whole();
        exchange.blocks.pop_back();
      }
    }
    if (random() % 3 == 0 && !own.empty()) {
      wrong += !own.back().is_whole();
      own.pop_back();
    }
  }
  for (const Marked& block : own) wrong += !block.is_whole();
  const std::lock_guard lock(exchange.mutex);
  exchange.wrong += wrong;
}

class Reports final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    told.emplace_back(block, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::vector<std::pair<void*, std::int64_t>> told;
};

class OwnAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override { return c10::GetDefaultCPUAllocator()->allocate(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

}  // namespace

TEST_CASE("what a thread frees last is what it gets next, for a size near to it") {
  CachingCpuAllocator::clear_this_thread();
  auto first = allocate(1000);
  auto second = allocate(1000);
  const void* const places[] = {first.get(), second.get()};
  CHECK(places[0] != places[1]);
  first.clear();
  second.clear();
  CHECK(allocate(900).get() != places[1]);  // a size of its own
  CHECK(allocate(4000).get() != places[1]);
  const auto third = allocate(1024);
  const auto fourth = allocate(970);
  CHECK(third.get() == places[1]);
  CHECK(fourth.get() == places[0]);
}

TEST_CASE("memory belongs to one tensor at a time, whichever threads take and free it") {
  const std::size_t before = kept_by_others();
  {
    Exchange exchange;
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back([&, seed] { take_and_leave(exchange, seed); });
    for (std::thread& thread : threads) thread.join();
    CHECK(exchange.wrong == 0);
    CHECK(CachingCpuAllocator::kept_bytes() == before);  // what threads kept went with them
    for (const Marked& block : exchange.blocks) CHECK(block.is_whole());
  }
  CHECK(kept_by_others() == before);
}

TEST_CASE("a thread keeps no more than it may, and no large blocks") {
  const std::size_t before = kept_by_others();
  allocate(CachingCpuAllocator::kLargestBlock + 1).clear();
  CHECK(CachingCpuAllocator::kept_bytes() == before);
  allocate(CachingCpuAllocator::kLargestBlock).clear();
  CHECK(CachingCpuAllocator::kept_bytes() == before + CachingCpuAllocator::kLargestBlock);
  CachingCpuAllocator::clear_this_thread();
  const auto free_some = [](std::size_t blocks, std::size_t bytes) {
    std::vector<c10::DataPtr> taken;
    for (std::size_t block = 0; block < blocks; ++block) taken.push_back(allocate(bytes));
  };
  free_some(CachingCpuAllocator::kMostKeptOfSize / kMebibyte + 3, kMebibyte);
  CHECK(CachingCpuAllocator::kept_bytes() == before + CachingCpuAllocator::kMostKeptOfSize);
  free_some(CachingCpuAllocator::kMostKeptOfSize / kMebibyte / 2, 2 * kMebibyte);
  CHECK(CachingCpuAllocator::kept_bytes() == before + CachingCpuAllocator::kMostKept);
  free_some(1, 64);
  CHECK(CachingCpuAllocator::kept_bytes() == before + 64);
}

#if !defined(__SANITIZE_ADDRESS__)  // which counts by itself
TEST_CASE("memory that is kept is not in use, and is given back when asked for") {
  clear_memory();
  const std::int64_t before = process_memory().in_use;
  std::vector<c10::DataPtr> blocks;
  for (int block = 0; block < 15; ++block) blocks.push_back(allocate(kMebibyte));
  CHECK(process_memory().in_use > before + 15'000'000);
  blocks.clear();
  CHECK(CachingCpuAllocator::kept_bytes() >= 15 * kMebibyte);
  CHECK(process_memory().in_use < before + 1'000'000);
  clear_memory();
  CHECK(CachingCpuAllocator::kept_bytes() < 15 * kMebibyte);
  CHECK(process_memory().in_use < before + 1'000'000);
}
#endif

TEST_CASE("a tensor may be freed when its thread's memory has gone") {
  const std::size_t before = kept_by_others();
  std::thread([] {
    static thread_local c10::DataPtr last;
    last.clear();  // made before what the thread keeps, and so destroyed after it
    last = allocate(1000);
    allocate(2000).clear();
  }).join();
  CHECK(CachingCpuAllocator::kept_bytes() == before);
}

TEST_CASE("memory is taken and freed by its address alone, too") {
  CachingCpuAllocator& allocator = CachingCpuAllocator::instance();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{513}, 5 * kMebibyte}) {
    void* const memory = allocator.raw_allocate(bytes);
    std::memset(memory, 1, bytes);
    allocator.raw_deallocate(memory);
  }
  CHECK(allocate(0).get() == nullptr);
}

TEST_CASE("LibTorch's profiler is told of memory that comes and goes") {
  const auto reports = std::make_shared<Reports>();
  std::array<void*, 2> places{};
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reports);
    for (void*& place : places) place = allocate(3000).get();
  }
  CHECK(places[0] == places[1]);
  const std::vector<std::pair<void*, std::int64_t>> wanted = {
      {places[0], 3000}, {places[0], -3000}, {places[0], 3000}, {places[0], -3000}};
  CHECK(reports->told == wanted);
}

TEST_CASE("memory that cannot be had is LibTorch's error") {
  CHECK_THROWS_AS(allocate(std::size_t{1} << 60), c10::Error);
  CHECK_THROWS_AS(allocate(std::numeric_limits<std::size_t>::max()), c10::Error);
}

TEST_CASE("an allocator that somebody has chosen stays") {
  c10::Allocator* const before = c10::GetCPUAllocator();
  OwnAllocator own;
  c10::SetCPUAllocator(&own);
  CachingCpuAllocator::install();
  CHECK(c10::GetCPUAllocator() == &own);
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
  CachingCpuAllocator::install();
  CHECK(c10::GetCPUAllocator() == &CachingCpuAllocator::instance());
  c10::SetCPUAllocator(before);
}
