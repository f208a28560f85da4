// What an error of a device without free memory says about the memory in use.
#include <catch2/catch.hpp>

#include "levin/core/config/component.h"
#include "support/recording.h"
#include "support/toy_accelerator.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr std::int64_t kMib = 1 << 20;

/// A tensor of so many MiB.
at::Tensor mib(double size) { return torch::ones({static_cast<std::int64_t>(size * kMib / 4)}); }

/// A device that counts its memory.
struct CountedDevice : Toy {
  std::optional<DeviceMemory> memory(const at::Device&) const override {
    if (fails) throw std::runtime_error("the device is gone");
    return counted;
  }
  std::map<std::string, double> statistics(const at::Device&) const override { return figures; }

  std::optional<DeviceMemory> counted;
  std::map<std::string, double> figures;
  bool fails = false;
};

/// Runs out of memory in the second step, when gradients and the optimizer's state exist.
struct Large final : Module {
  Large() {
    weight = register_parameter("weight", mib(4));
    tied = register_parameter("tied", weight);
    unused = register_parameter("unused", mib(0.5).to(at::kMeta), /*requires_grad=*/false);  // on another device
    register_buffer("part", register_buffer("whole", mib(3)).narrow(0, 0, 8));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return (weight * batch[0].sum()).sum(); }
  void on_after_backward() override {
    TORCH_CHECK_WITH(OutOfMemoryError, trainer().global_step() == 0, "out of memory: tried to allocate 8 GiB");
  }
  OptimizerSetups configure_optimizers() override {
    const std::vector<at::Tensor> trained = {weight};
    if (with_sgd) return std::make_shared<torch::optim::SGD>(trained, 0.1);
    return std::make_shared<torch::optim::Adam>(trained);
  }

  at::Tensor weight, tied, unused;
  bool with_sgd = false;
};

/// What the error of a fit on this device says between the batch and the hint.
std::string held_on(Component<Accelerator> device, bool with_sgd = false) {
  Large module;
  module.with_sgd = with_sgd;
  try {
    Trainer(quiet({.max_epochs = 1, .accelerator = std::move(device)})).fit(module, FixedLoader::of_rows(4, 2));
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    const auto begin = text.find('\n', text.find("\n  The batch: ") + 1) + 1;
    const auto end = text.find("  Hint: a smaller batch_size");
    REQUIRE((begin <= end && end < text.size()));
    return text.substr(begin, end - begin);
  }
  FAIL("no error");
  return "";
}

}  // namespace

TEST_CASE("out of memory of a device says what is held there, each piece of memory once and the largest first") {
  const auto device = std::make_shared<CountedDevice>();
  device->counted = DeviceMemory{.allocated = 40 * kMib, .reserved = 64 * kMib, .used = 72 * kMib};
  device->figures = {{"allocated_bytes.all.peak", 60.0 * kMib}};
  CHECK(held_on(std::static_pointer_cast<Accelerator>(device)) ==
        "  Rank 0 holds on toy:0, in MiB:\n"
        "        21.0  other: live activations and graphs, tensors of module and callbacks\n"
        "         8.0  optimizer state\n"
        "         4.0  weights\n"
        "         4.0  gradients\n"
        "         3.0  buffers\n"
        "    24.0 MiB are reserved and unused now; up to 20.0 of them were in use before, by activations above all\n"
        "    8.0 MiB are other processes' and the driver's\n");
}

TEST_CASE("a device that counts less than is held, or cannot count, leaves out what is not known") {
  const auto device = std::make_shared<CountedDevice>();
  device->counted = DeviceMemory{.allocated = 2 * kMib, .reserved = kMib};
  CHECK(held_on(std::static_pointer_cast<Accelerator>(device), /*with_sgd=*/true) ==
        "  Rank 0 holds on toy:0, in MiB:\n"
        "         4.0  weights\n"
        "         4.0  gradients\n"
        "         3.0  buffers\n");
  device->fails = true;
  CHECK(held_on(std::static_pointer_cast<Accelerator>(device)).empty());
  CHECK(held_on("cpu").empty());
}
