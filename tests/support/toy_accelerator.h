#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include "levin/core/accelerator.h"
#include "levin/core/config/registry.h"

// docs/extend/write-an-accelerator.md shows the code below.

/// Three simulated devices: their tensors are in the CPU's memory. Counts its calls.
class Toy : public levin::Accelerator {
 public:
  std::string name() const override { return "toy"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  std::string describe(const at::Device&) const override { return "toy:" + std::to_string(selected); }

  int device_count() const override { return 3; }
  at::Device select(int index) const override {
    selected = index;
    return at::kCPU;
  }
  void synchronize(const at::Device&) const override { ++synchronizations; }
  std::optional<levin::DeviceMemory> memory(const at::Device&) const override {
    return levin::DeviceMemory{.allocated = 100, .reserved = 128};
  }
  std::optional<at::Generator> generator(const at::Device&) const override { return random_numbers; }
  std::optional<at::ScalarType> autocast_type(levin::PrecisionFormat) const override { return std::nullopt; }

  mutable int selected = -1;
  mutable int synchronizations = 0;
  at::Generator random_numbers = at::make_generator<at::CPUGeneratorImpl>(at::default_rng_seed_val);
};

LEVIN_REGISTER_ACCELERATOR(Toy, "Three simulated devices");
