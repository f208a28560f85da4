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

}  // namespace levin
