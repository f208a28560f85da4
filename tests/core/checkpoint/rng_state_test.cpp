#include "levin/core/checkpoint/rng_state.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "levin/core/error.h"
#include "levin/core/seed.h"

TEST_CASE("a snapshot of the generator brings back every number, one of a pair included") {
  torch::manual_seed(100);
  torch::randn({3});  // an odd number of normals leaves one in the generator's cache
  (void)torch::randn({1}).item<float>();
  const levin::RandomSnapshot snapshot = levin::RandomSnapshot::take();
  const at::Tensor state = levin::rng_state();
  CHECK(at::equal(snapshot.state(), state));
  const at::Tensor expected = torch::randn({7});
  snapshot.restore();
  CHECK(at::equal(torch::randn({7}), expected));
  levin::set_rng_state(snapshot.state());
  CHECK(at::equal(torch::randn({7}), expected));
}

TEST_CASE("a scope leaves random numbers as they were, also when it ends with an error") {
  torch::manual_seed(3);
  const at::Tensor before = levin::rng_state();
  try {
    const levin::RandomScope scope;
    torch::rand({5});
    throw levin::Error("ends");
  } catch (const levin::Error&) {
  }
  CHECK(at::equal(levin::rng_state(), before));
}

TEST_CASE("bytes that are no generator's state are refused, and the generator goes on") {
  torch::manual_seed(5);
  const at::Tensor before = levin::rng_state();
  CHECK_THROWS_AS(levin::set_rng_state(torch::zeros({3}, torch::kByte)), levin::IoError);
  CHECK_THROWS_AS(levin::set_rng_state(torch::zeros({5056})), levin::IoError);
  CHECK(at::equal(levin::rng_state(), before));
}

TEST_CASE("seed_everything makes random numbers repeat") {
  CHECK(levin::seed_everything(42) == 42);
  const at::Tensor first = torch::randn({4});
  const int first_rand = std::rand();
  levin::seed_everything(42);
  CHECK(at::equal(torch::randn({4}), first));
  CHECK(std::rand() == first_rand);
  levin::seed_everything(43);
  CHECK_FALSE(at::equal(torch::randn({4}), first));
}
