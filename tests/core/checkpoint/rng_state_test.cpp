#include "levin/core/checkpoint/rng_state.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/checkpoint/temporary_folder.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/error.h"
#include "levin/core/seed.h"

TEST_CASE("the generator of each rank goes on where it was") {
  TemporaryFolder folder;
  levin::Checkpoint checkpoint;
  std::vector<at::Tensor> expected;
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(100 + static_cast<std::uint64_t>(rank));
    torch::randn({rank + 1});  // An odd number of normals leaves one in the generator's cache.
    levin::save_rng_state(rank, levin::rng_state(), checkpoint);
    expected.push_back(torch::randn({7}));
  }
  checkpoint.save(folder / "rng.ckpt");
  const levin::Checkpoint loaded = levin::Checkpoint::load(folder / "rng.ckpt");
  CHECK(loaded.tensors.count("rng.1.cpu") == 1);
  for (const int rank : {1, 0}) {
    REQUIRE(levin::load_rng_state(rank, loaded));
    CHECK(at::equal(torch::randn({7}), expected[static_cast<std::size_t>(rank)]));
  }
  CHECK_FALSE(levin::load_rng_state(2, loaded));
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
