#include "support/queued_device/memory.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "support/queued_device/queued_device.h"
#include "support/queued_device/queues.h"

namespace levin::test::queued {

namespace {

constexpr std::size_t kAlignment = 512;

struct Block {
  explicit Block(std::size_t size) : bytes(size), memory(std::aligned_alloc(kAlignment, size)) {
    // A number that was never written shows.
    std::memset(memory, 0xff, size);
  }
  ~Block() { std::free(memory); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::size_t bytes;
  void* memory;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  std::vector<Ticket> in_use;  ///< by other streams
};

std::size_t rounded(std::size_t bytes) { return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment); }

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    const c10::Device device = guard.getDevice();
    if (bytes == 0) return {nullptr, device};
    ++allocations_;
    const c10::Stream stream = guard.getStream(device);
    const std::lock_guard lock(mutex_);
    Account& account = accounts_.at(static_cast<std::size_t>(device.index()));
    const std::size_t size = rounded(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, account.allocated + static_cast<std::int64_t>(size) <= limit_,
                     "QueuedDevice out of memory. Tried to allocate ", size, " bytes; ", account.allocated, " of ", limit_,
                     " are in use.");
    account.allocated += static_cast<std::int64_t>(size);
    auto block = kept(device.index(), stream.id(), size);
    if (block == nullptr) {
      block = std::make_unique<Block>(size);
      account.reserved += static_cast<std::int64_t>(size);
    }
    block->device = device.index();
    block->stream = stream.id();
    void* const memory = block->memory;
    return {memory, block.release(), &give_back, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  void note_use(const c10::DataPtr& memory, const c10::Stream& stream) {
    auto* const block = static_cast<Block*>(memory.get_context());
    const std::lock_guard lock(mutex_);
    // Until it is freed; the number is filled in then.
    if (block != nullptr && stream.id() != block->stream) block->in_use.push_back({stream, 0});
  }
  std::int64_t allocations() const { return allocations_; }
  void limit(std::int64_t bytes) { limit_ = bytes; }
  DeviceMemory memory(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    const Account& account = accounts_.at(static_cast<std::size_t>(device));
    return {.allocated = account.allocated, .reserved = account.reserved, .used = account.reserved};
  }
  void forget(c10::DeviceIndex device) {
    Queues::instance().wait_for_device(device, "memory");
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& block) {
      if (block->device != device) return false;
      accounts_.at(static_cast<std::size_t>(device)).reserved -= static_cast<std::int64_t>(block->bytes);
      return true;
    });
  }
  static DeviceAllocator& instance() {
    static auto* const allocator = new DeviceAllocator;
    return *allocator;
  }

 private:
  struct Account {
    std::int64_t allocated = 0;
    std::int64_t reserved = 0;
  };

  static void give_back(void* context) { instance().keep(std::unique_ptr<Block>(static_cast<Block*>(context))); }
  void keep(std::unique_ptr<Block> block) {
    const std::lock_guard lock(mutex_);
    for (Ticket& ticket : block->in_use) ticket = Queues::instance().last(ticket.stream);
    accounts_.at(static_cast<std::size_t>(block->device)).allocated -= static_cast<std::int64_t>(block->bytes);
    kept_.push_front(std::move(block));  // what was used last comes first
  }
  /// One of that size which no other stream uses; null: none.
  std::unique_ptr<Block> kept(c10::DeviceIndex device, c10::StreamId stream, std::size_t size) {
    const auto fits = [&](const auto& block) {
      return block->device == device && block->stream == stream && block->bytes == size &&
             std::ranges::all_of(block->in_use, [](const Ticket& ticket) { return Queues::instance().is_done(ticket); });
    };
    const auto found = std::ranges::find_if(kept_, fits);
    if (found == kept_.end()) return nullptr;
    auto block = std::move(*found);
    kept_.erase(found);
    block->in_use.clear();
    return block;
  }

  std::mutex mutex_;
  std::list<std::unique_ptr<Block>> kept_;
  std::array<Account, 16> accounts_;
  std::atomic<std::int64_t> limit_ = std::int64_t{1} << 50;
  std::atomic<std::int64_t> allocations_ = 0;
};

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const std::shared_ptr<const Block> block(new Block(rounded(bytes)), [this](const Block* freed) {
      const std::lock_guard lock(mutex_);
      blocks_.erase(freed->memory);
      delete freed;
    });
    const std::lock_guard lock(mutex_);
    blocks_[block->memory] = block;
    return {block->memory, new std::shared_ptr(block), &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  std::shared_ptr<const Block> block_of(const void* data) {
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(data);
    if (after == blocks_.begin()) return nullptr;
    const auto block = std::prev(after)->second.lock();
    const bool is_inside = block != nullptr && data < static_cast<const char*>(block->memory) + block->bytes;
    return is_inside ? block : nullptr;
  }
  static PinnedAllocator& instance() {
    static auto* const allocator = new PinnedAllocator;
    return *allocator;
  }

 private:
  /// Copies that are on their way may still hold it.
  static void give_back(void* context) { delete static_cast<std::shared_ptr<const Block>*>(context); }

  std::recursive_mutex mutex_;
  std::map<const void*, std::weak_ptr<const Block>> blocks_;
};

}  // namespace

c10::Allocator& device_memory() { return DeviceAllocator::instance(); }
void note_use(const c10::DataPtr& memory, const c10::Stream& stream) { DeviceAllocator::instance().note_use(memory, stream); }
std::int64_t allocations() { return DeviceAllocator::instance().allocations(); }
void limit_device_memory(std::int64_t bytes) { DeviceAllocator::instance().limit(bytes); }
DeviceMemory memory_of(c10::DeviceIndex device) { return DeviceAllocator::instance().memory(device); }
void give_memory_back(c10::DeviceIndex device) { DeviceAllocator::instance().forget(device); }

c10::Allocator& pinned_memory() { return PinnedAllocator::instance(); }
std::shared_ptr<const void> pinned_block(const void* data) { return PinnedAllocator::instance().block_of(data); }

}  // namespace levin::test::queued
