#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "levin/core/memory.h"
#include "levin/core/run/trainer_state.h"

namespace levin {
namespace {

/// Blocks of memory that are alive, by the hook that made them. It lives as long as the process: what was made while somebody
/// counted may be freed at any later time, by any thread.
class LiveBlocks {
 public:
  static LiveBlocks& instance() {
    static auto* const blocks = new LiveBlocks;
    return *blocks;
  }

  /// False: somebody counts already.
  bool begin(const HookTracker& tracker) {
    const std::lock_guard lock(mutex_);
    if (tracker_ != nullptr) return false;
    tracker_ = &tracker;
    thread_ = std::this_thread::get_id();
    bytes_.clear();
    blocks_.clear();
    return true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    tracker_ = nullptr;
    bytes_.clear();
    blocks_.clear();
  }
  /// `of_training`: by the thread that trains, or one that it waits for.
  void add(const void* block, std::int64_t bytes, bool of_training) {
    const std::lock_guard lock(mutex_);
    if (tracker_ == nullptr) return;
    const Hook hook = of_training ? tracker_->hook() : Hook::kNone;
    blocks_.insert_or_assign(block, std::pair(hook, bytes));
    bytes_[hook] += bytes;
  }
  void remove(const void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    bytes_[found->second.first] -= found->second.second;
    blocks_.erase(found);
  }
  bool is_training_thread() const { return std::this_thread::get_id() == thread_; }
  std::map<Hook, std::int64_t> bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  const HookTracker* tracker_ = nullptr;  ///< null: nobody counts
  std::atomic<std::thread::id> thread_;
  std::unordered_map<const void*, std::pair<Hook, std::int64_t>> blocks_;
  std::map<Hook, std::int64_t> bytes_;
};

/// LibTorch's allocator of the CPU's memory, and the count of what it gives.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& inner) : inner_(inner) {}
  c10::Allocator& inner() const { return inner_; }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr block = inner_.allocate(bytes);
    void* const data = block.get();
    const c10::Device device = block.device();
    LiveBlocks& blocks = LiveBlocks::instance();
    blocks.add(data, static_cast<std::int64_t>(bytes), blocks.is_training_thread());
    return {data, new c10::DataPtr(std::move(block)), &free_block, device};
  }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    inner_.copy_data(target, source, bytes);
  }

 private:
  static void free_block(void* context) {
    const std::unique_ptr<c10::DataPtr> block(static_cast<c10::DataPtr*>(context));
    LiveBlocks::instance().remove(block->get());
  }

  c10::Allocator& inner_;
};

}  // namespace

struct TensorsByHook::Impl {
  /// What LibTorch tells its profiler of a device's memory.
  class DeviceReports final : public c10::MemoryReportingInfoBase {
   public:
    void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t, std::size_t, c10::Device device) override {
      if (device.is_cpu() || !listens) return;
      if (bytes < 0) return LiveBlocks::instance().remove(block);
      // Threads of backward tell of it too; the one that trains waits for them.
      LiveBlocks::instance().add(block, bytes, /*of_training=*/true);
    }
    bool memoryProfilingEnabled() const override { return listens; }

    std::atomic<bool> listens = true;
  };

  c10::Allocator* allocator = nullptr;  ///< LibTorch's own
  std::shared_ptr<DeviceReports> reports;
  std::shared_ptr<c10::ThreadLocalDebugInfo> before;  ///< what the thread had
  std::shared_ptr<c10::ThreadLocalDebugInfo> with_reports;
};

TensorsByHook::TensorsByHook(const Trainer& trainer) {
  const TrainerState& run = TrainerState::of(trainer);
  if (!LiveBlocks::instance().begin(run.tracker)) return;
  impl_ = std::make_unique<Impl>();
  impl_->allocator = c10::GetCPUAllocator();
  // Tensors keep a pointer to the allocator that made them.
  static auto* const counting = new CountingAllocator(*impl_->allocator);
  if (&counting->inner() == impl_->allocator) c10::SetCPUAllocator(counting);
  const auto slot = c10::DebugInfoKind::PROFILER_STATE;
  if (run.strategy().device().is_cpu() || c10::ThreadLocalDebugInfo::get(slot) != nullptr) return;
  impl_->reports = std::make_shared<Impl::DeviceReports>();
  impl_->before = c10::ThreadLocalDebugInfo::current();
  c10::ThreadLocalDebugInfo::_push(slot, impl_->reports);
  impl_->with_reports = c10::ThreadLocalDebugInfo::current();
}

TensorsByHook::~TensorsByHook() {
  if (!impl_) return;
  c10::SetCPUAllocator(impl_->allocator);
  if (impl_->reports) {
    impl_->reports->listens = false;
    if (c10::ThreadLocalDebugInfo::current() == impl_->with_reports)
      c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(impl_->before);
  }
  LiveBlocks::instance().end();
}

std::map<Hook, std::int64_t> TensorsByHook::alive() const {
  return impl_ ? LiveBlocks::instance().bytes() : std::map<Hook, std::int64_t>();
}

}  // namespace levin
