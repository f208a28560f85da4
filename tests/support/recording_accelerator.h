#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "levin/core/accelerator.h"

namespace levin::test {

/// A kind of device that records its work, as CUDA's graphs do, and whose memory is the CPU's. Recorded are the operators that
/// LibTorch calls, with the very tensors that they read and wrote; the values that came out while they were recorded are
/// spoilt. What cannot be recorded, reading a number, throws as CUDA's does.
class RecordingAccelerator : public Accelerator {
 public:
  std::string name() const override { return "recording"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  int device_count() const override { return 1; }
  at::Device select(int) const override { return at::kCPU; }
  void synchronize(const at::Device&) const override {}
  std::optional<at::Generator> generator(const at::Device&) const override { return std::nullopt; }
  std::optional<at::ScalarType> autocast_type(PrecisionFormat) const override { return at::kBFloat16; }
  bool pins_memory() const override { return false; }
  std::unique_ptr<DeviceGraph> make_graph(const at::Device& device, const DeviceGraph* before) const override;
};

}  // namespace levin::test
