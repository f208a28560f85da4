#include "levin/strategies/devices/accelerators.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace levin {

namespace {

DeviceMemory memory(int index) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.allocated = stats.allocated_bytes[kAll].current,
          .reserved = stats.reserved_bytes[kAll].current,
          .used = static_cast<std::int64_t>(total - free)};
}

std::map<std::string, double> statistics(int index) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  std::map<std::string, std::int64_t> counts = {
      {"num_alloc_retries", stats.num_alloc_retries},       {"num_ooms", stats.num_ooms},
      {"num_sync_all_streams", stats.num_sync_all_streams}, {"num_device_alloc", stats.num_device_alloc},
      {"num_device_free", stats.num_device_free},           {"max_split_size", stats.max_split_size}};
  // Since LibTorch 2.13.
  const auto add_rejections = [&](const auto& counted) {
    if constexpr (requires { counted.num_oom_rejections; }) counts["num_oom_rejections"] = counted.num_oom_rejections;
  };
  add_rejections(stats);
  const auto add = [&](const std::string& name, const c10::CachingAllocator::Stat& stat) {
    counts[name + ".current"] = stat.current;
    counts[name + ".peak"] = stat.peak;
    counts[name + ".allocated"] = stat.allocated;
    counts[name + ".freed"] = stat.freed;
  };
  const auto add_pools = [&](const std::string& name, const c10::CachingAllocator::StatArray& pools) {
    // In the order of c10's StatType.
    for (std::size_t pool = 0; const char* pool_name : {".all", ".small_pool", ".large_pool"})
      add(name + pool_name, pools[pool++]);
  };
  add_pools("allocation", stats.allocation);
  add_pools("segment", stats.segment);
  add_pools("active", stats.active);
  add_pools("inactive_split", stats.inactive_split);
  add_pools("allocated_bytes", stats.allocated_bytes);
  add_pools("reserved_bytes", stats.reserved_bytes);
  add_pools("active_bytes", stats.active_bytes);
  add_pools("inactive_split_bytes", stats.inactive_split_bytes);
  add_pools("requested_bytes", stats.requested_bytes);
  add("oversize_allocations", stats.oversize_allocations);
  add("oversize_segments", stats.oversize_segments);
  return {counts.begin(), counts.end()};
}

void clear_memory(int index) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
  c10::cuda::CUDACachingAllocator::emptyCache();
}

class RecordedCudaWork final : public DeviceGraph {
 public:
  RecordedCudaWork(int index, c10::MempoolId_t pool) : index_(static_cast<c10::DeviceIndex>(index)), pool_(pool) {}

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(index_);
    c10::cuda::device_synchronize();
    // CUDA records no default stream.
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index_));
    // Threads that read batches allocate page-locked memory during it.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      end_failed();
      throw;
    }
    graph_.capture_end();
    pool_ = graph_.pool();
  }
  void replay() override {
    const c10::cuda::CUDAGuard guard(index_);
    graph_.replay();
  }
  c10::MempoolId_t pool() const { return pool_; }

 private:
  /// The stream must stop recording; the recorded work is discarded.
  void end_failed() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      static_cast<void>(cudaGetLastError());
    }
  }

  c10::DeviceIndex index_;
  c10::MempoolId_t pool_;
  at::cuda::CUDAGraph graph_;
};

std::unique_ptr<DeviceGraph> make_graph(int index, const DeviceGraph* before) {
  const auto* recorded = dynamic_cast<const RecordedCudaWork*>(before);
  return std::make_unique<RecordedCudaWork>(index, recorded != nullptr ? recorded->pool() : c10::MempoolId_t{0, 0});
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    double timeout_seconds) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

constexpr CudaApi kApi = {memory, statistics, clear_memory, make_graph, make_nccl_backend};

}  // namespace

extern "C" const CudaApi* levin_cuda_api() { return &kApi; }

}  // namespace levin
