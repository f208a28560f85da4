#include "levin/core/batch.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

using Catch::Matchers::Contains;
using levin::Batch;

namespace {

/// What LibTorch knows of an accelerator that is no GPU of NVIDIA's: it counts how often page-locked memory is asked for.
struct ToyHooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::Allocator* getPinnedMemoryAllocator() const override {
    ++asked;
    return c10::GetCPUAllocator();
  }
  mutable int asked = 0;
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<at::kPrivateUse1>);

}  // namespace

TEST_CASE("a batch holds tensors by position and by name") {
  const at::Tensor image = torch::rand({4, 8, 8});
  const at::Tensor label = torch::arange(4);
  const Batch batch{{"image", image}, {"label", label}};
  REQUIRE(batch.size() == 2);
  REQUIRE(batch[0].is_same(image));
  REQUIRE(batch["label"].is_same(label));
  REQUIRE(batch.contains("image"));
  REQUIRE_FALSE(batch.contains("mask"));
  REQUIRE(batch.batch_size() == 4);
}

TEST_CASE("a tensor that is not there is an error that names what is there") {
  const Batch batch{{"image", torch::rand({2})}, {"label", torch::rand({2})}};
  REQUIRE_THROWS_AS(batch["imgae"], levin::MisuseError);
  REQUIRE_THROWS_WITH(batch["imgae"], Contains("\"imgae\"") && Contains("\"image\", \"label\""));
  REQUIRE_THROWS_WITH(batch[2], Contains("batch[2]") && Contains("\"image\", \"label\""));
  REQUIRE_THROWS_WITH(batch[-1], Contains("batch[-1]"));
  REQUIRE_THROWS_WITH(Batch()["image"], Contains("the batch is empty"));
  REQUIRE_THROWS_WITH(Batch::of({torch::rand({1})})["image"], Contains("1 tensors without names"));
}

TEST_CASE("set adds a tensor or replaces the one of the same name") {
  Batch batch;
  batch.set("x", torch::zeros({3}));
  batch.set("y", torch::zeros({3}));
  const at::Tensor ones = torch::ones({3});
  batch.set("x", ones);
  REQUIRE(batch.size() == 2);
  REQUIRE(batch[0].is_same(ones));
  batch.set("", ones);
  batch.set("", ones);
  REQUIRE(batch.size() == 4);
}

TEST_CASE("batch_size is the first dimension that there is") {
  REQUIRE(Batch().batch_size() == 0);
  REQUIRE(Batch::of({torch::tensor(3.0)}).batch_size() == 1);
  REQUIRE(Batch::of({torch::tensor(3.0), torch::zeros({5, 2})}).batch_size() == 5);
  REQUIRE(Batch::of({at::Tensor(), torch::zeros({7})}).batch_size() == 7);
  REQUIRE(Batch::of({torch::zeros({0, 4})}).batch_size() == 0);
}

TEST_CASE("a change of type touches floating-point tensors only") {
  const Batch batch{{"x", torch::ones({2})}, {"label", torch::arange(2)}, {"nothing", at::Tensor()}};
  const Batch half = batch.to(at::kBFloat16);
  REQUIRE(half["x"].scalar_type() == at::kBFloat16);
  REQUIRE(half["label"].is_same(batch["label"]));
  REQUIRE_FALSE(half["nothing"].defined());
}

TEST_CASE("moving to the device where a tensor is shares it, and another device gets a copy") {
  const Batch batch{{"x", torch::ones({2})}};
  REQUIRE(batch.to(at::Device(at::kCPU))["x"].is_same(batch["x"]));
  REQUIRE(batch.to(at::Device(at::kMeta))["x"].is_meta());
}

TEST_CASE("page-locked memory is that of the accelerator that LibTorch knows, whichever it is") {
  if (at::hasCUDA()) return;  // it knows one at a time
  const Batch batch{{"image", torch::arange(4)}};
  CHECK(batch.pin_memory()[0].is_same(batch[0]));
  static ToyHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("toy");
  const Batch pinned = batch.pin_memory();
  CHECK(hooks.asked > 0);
  CHECK_FALSE(pinned[0].is_same(batch[0]));
  CHECK(pinned["image"].equal(batch["image"]));
}
