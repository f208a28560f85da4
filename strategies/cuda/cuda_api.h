#pragma once

#include <ATen/core/Generator.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <memory>
#include <string>

#include "levin/core/accelerator.h"
#include "levin/core/base/fwd.h"

namespace levin {

/// All that levin asks of CUDA, in a library of its own (liblevin_cuda.so): a run on the CPU never loads libtorch_cuda.
struct CudaApi {
  int (*device_count)();
  /// Makes a GPU the current one of the calling thread.
  void (*select_device)(int index);
  void (*synchronize)(int index);
  DeviceMemory (*memory)(int index);
  /// What torch.cuda.memory_stats() gives, but of private pools.
  std::map<std::string, double> (*statistics)(int index);
  /// Gives LibTorch's unused memory back to the GPU.
  void (*clear_memory)(int index);
  /// LibTorch's own for this GPU.
  at::Generator (*generator)(int index);
  /// See Accelerator::make_graph().
  std::unique_ptr<DeviceGraph> (*make_graph)(int index, const DeviceGraph* before);
  /// NCCL among all ranks. Ranks: all.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl_backend)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                         double timeout_seconds);
};

/// The library's one entry.
extern "C" LEVIN_API const CudaApi* levin_cuda_api();
using CudaApiEntry = const CudaApi* (*)();

/// True when this machine has an NVIDIA driver with a device. Loads nothing.
bool has_gpu();

/// Loads liblevin_cuda.so, and with it libtorch_cuda, on the first call. Throws ConfigError, saying what is missing, when this
/// machine has no GPU or levin was built without CUDA.
const CudaApi& cuda_api();

}  // namespace levin
