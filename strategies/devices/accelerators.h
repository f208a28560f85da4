#pragma once

#include "levin/core/accelerator.h"

namespace levin {

/// The CPU, which any number of ranks share. The name in YAML is "cpu", and "auto" stands for it.
class CpuAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "cpu"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  /// "cpu (2 threads)"
  std::string describe(const at::Device& device) const override;
  /// One for each of so many ranks. Throws ConfigError for -1 and for indices, which choose among several devices.
  std::vector<int> devices_of_ranks(const Devices& devices) const override;
  at::Device choose(const Devices& devices, int local_rank) const override;
  void synchronize(const at::Device&) const override {}
  /// 16-mixed is bf16-mixed on a CPU, as in Lightning.
  std::optional<at::ScalarType> autocast_type(PrecisionFormat) const override { return at::kBFloat16; }
};

/// NVIDIA's GPUs, those that CUDA_VISIBLE_DEVICES leaves. What it asks of CUDA it asks of liblevin_cuda.so, which its first
/// call loads; it throws ConfigError when there is no GPU, or when levin was built without CUDA. The names in YAML are "cuda"
/// and "gpu".
class CudaAccelerator final : public Accelerator {
 public:
  std::string name() const override { return "cuda"; }
  at::DeviceType device_type() const override { return at::kCUDA; }
  std::string device_noun() const override { return "GPU"; }
  std::string visibility_variable() const override { return "CUDA_VISIBLE_DEVICES"; }
  int device_count() const override;
  at::Device select(int index) const override;
  void synchronize(const at::Device& device) const override;
  std::optional<DeviceMemory> memory(const at::Device& device) const override;
  std::map<std::string, double> statistics(const at::Device& device) const override;
  void clear_memory(const at::Device& device) const override;
  std::optional<at::Generator> generator(const at::Device& device) const override;
  std::optional<at::ScalarType> autocast_type(PrecisionFormat format) const override {
    return format == PrecisionFormat::kFloat16Mixed ? at::kHalf : at::kBFloat16;
  }
  std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const override;
  std::string backend_name() const override { return "nccl"; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 double timeout_seconds) const override;
};

}  // namespace levin
