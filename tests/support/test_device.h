#pragma once

#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "levin/core/accelerator.h"
#include "levin/core/config/registry.h"

namespace levin::test {

/// The accelerator of tests that can run on any: the one that LEVIN_TEST_ACCELERATOR names, such as cuda, else the CPU.
inline std::string test_accelerator() {
  const char* name = std::getenv("LEVIN_TEST_ACCELERATOR");
  return name != nullptr ? name : "cpu";
}

/// Its first device.
inline at::Device test_device() {
  static const at::Device device = [] {
    const auto accelerator = Registry<Accelerator>::instance().make(test_accelerator(), Value::Map{});
    return accelerator->choose({}, 0);
  }();
  return device;
}

}  // namespace levin::test
