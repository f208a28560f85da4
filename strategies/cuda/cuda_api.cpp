#include "levin/strategies/cuda/cuda_api.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace levin {

namespace {

void synchronize(int index) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
  c10::cuda::device_synchronize();
}

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

void clear_memory(int index) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
  c10::cuda::CUDACachingAllocator::emptyCache();
}

at::Generator generator(int index) { return at::cuda::detail::getDefaultCUDAGenerator(static_cast<c10::DeviceIndex>(index)); }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    double timeout_seconds) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

constexpr CudaApi kApi = {[]() -> int { return c10::cuda::device_count(); },
                          [](int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); },
                          synchronize,
                          memory,
                          clear_memory,
                          generator,
                          make_nccl_backend};

}  // namespace

extern "C" const CudaApi* levin_cuda_api() { return &kApi; }

}  // namespace levin
