#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/base/fwd.h"

namespace levin {

/// CUDA functions that LibTorch has no general interface for, in a separate library (liblevin_cuda.so): a run on the CPU never
/// loads libtorch_cuda.
struct CudaApi {
  DeviceMemory (*memory)(int index);
  /// As torch.cuda.memory_stats(), without private pools.
  std::map<std::string, double> (*statistics)(int index);
  /// Returns LibTorch's unused memory to the GPU.
  void (*clear_memory)(int index);
  /// See Accelerator::make_graph().
  std::unique_ptr<DeviceGraph> (*make_graph)(int index, const DeviceGraph* before);
  /// NCCL among all ranks. Ranks: all.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl_backend)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                         double timeout_seconds);
};

/// The library's one entry.
extern "C" LEVIN_API const CudaApi* levin_cuda_api();
using CudaApiEntry = const CudaApi* (*)();

/// True when this machine has an NVIDIA driver with a device that this process may see. Loads nothing.
bool has_gpu();

/// Loads liblevin_cuda.so, and with it libtorch_cuda, on the first call. Throws ConfigError, saying what is missing, when this
/// machine has no GPU or levin was built without CUDA.
const CudaApi& cuda_api();

/// A GPU if this machine has one for this process, else the CPU. The name in YAML is "auto".
class AutoAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "auto"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  /// Chosen once. Warns of a GPU that cannot be used.
  std::shared_ptr<Accelerator> resolve() override;

 private:
  std::shared_ptr<Accelerator> chosen_;
};

/// The CPU, which any number of ranks share. The name in YAML is "cpu".
class CpuAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "cpu"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  /// "cpu (2 threads)"
  std::string describe(const at::Device& device) const override;
  /// One CPU for each rank. Throws ConfigError for -1 and for indices, which choose among several devices.
  std::vector<int> devices_of_ranks(const Devices& devices) const override;
  at::Device choose(const Devices& devices, int local_rank) const override;
  void synchronize(const at::Device&) const override {}
  /// 16-mixed is bf16-mixed on a CPU, as in Lightning.
  std::optional<at::ScalarType> autocast_type(PrecisionFormat) const override { return at::kBFloat16; }
};

/// NVIDIA's GPUs that CUDA_VISIBLE_DEVICES allows. It uses liblevin_cuda.so, which device_count() loads; that throws
/// ConfigError when there is no GPU, or when levin was built without CUDA. The names in YAML are "cuda" and "gpu".
class CudaAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "cuda"; }
  at::DeviceType device_type() const override { return at::kCUDA; }
  std::string device_noun() const override { return "GPU"; }
  std::string visibility_variable() const override { return "CUDA_VISIBLE_DEVICES"; }
  int device_count() const override;
  std::optional<DeviceMemory> memory(const at::Device& device) const override { return cuda_api().memory(device.index()); }
  std::map<std::string, double> statistics(const at::Device& device) const override {
    return cuda_api().statistics(device.index());
  }
  void clear_memory(const at::Device& device) const override { cuda_api().clear_memory(device.index()); }
  std::optional<at::ScalarType> autocast_type(PrecisionFormat format) const override {
    return format == PrecisionFormat::kFloat16Mixed ? at::kHalf : at::kBFloat16;
  }
  std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const override {
    return cuda_api().make_graph(device.index(), before);
  }
  std::string backend_name() const override { return "nccl"; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 double timeout_seconds) const override;
};

}  // namespace levin
