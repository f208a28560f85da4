#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>

#include "levin/core/export.h"

namespace levin {

/// Memory of a GPU that this process holds, in bytes.
struct CudaMemory {
  std::int64_t allocated = 0;  ///< in tensors
  std::int64_t reserved = 0;   ///< taken from the device
};

/// All that levin asks of CUDA, in a library of its own (liblevin_cuda.so): a run on the CPU never loads libtorch_cuda.
struct CudaApi {
  int (*device_count)();
  /// Makes a GPU the current one of the calling thread.
  void (*select_device)(int index);
  CudaMemory (*memory)(int index);
  /// NCCL among all ranks. Ranks: all.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl_backend)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                         double timeout_seconds);
};

/// The library's one entry.
extern "C" LEVIN_API const CudaApi* levin_cuda_api();
using CudaApiEntry = const CudaApi* (*)();

}  // namespace levin
