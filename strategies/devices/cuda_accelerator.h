#pragma once

#include "levin/core/accelerator.h"

namespace levin {

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
