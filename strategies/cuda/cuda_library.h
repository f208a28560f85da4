#pragma once

namespace levin {

struct CudaApi;

/// True when this machine has an NVIDIA driver with a device. Loads nothing.
bool has_gpu();

/// Loads liblevin_cuda.so, and with it libtorch_cuda, on the first call. Throws ConfigError, saying what is missing, when this
/// machine has no GPU or levin was built without CUDA.
const CudaApi& cuda_api();

}  // namespace levin
