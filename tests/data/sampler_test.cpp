#include "levin/data/data_loader.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/data/distributed_sampler.h"
#include "support/block_shuffle.h"

using Catch::Matchers::Contains;
using Indices = std::vector<std::int64_t>;
using levin::DistributedSampler;
using levin::Shard;
using levin::Uneven;

namespace {

Indices global_order(bool shuffle, std::int64_t size, std::int64_t seed, std::int64_t epoch) {
  const levin::EpochKey key{.dataset_size = size, .seed = seed, .epoch = epoch};
  if (shuffle) return levin::RandomSampler().order(key);
  return levin::SequentialSampler().order(key);
}

std::vector<Indices> divide(const Indices& order, int world_size, Uneven uneven) {
  std::vector<Indices> parts;
  for (int rank = 0; rank < world_size; ++rank) {
    const Shard shard{.rank = rank, .world_size = world_size, .uneven = uneven};
    parts.push_back(DistributedSampler(static_cast<std::int64_t>(order.size()), shard).select(order));
  }
  return parts;
}

}  // namespace

// for r in range(w):
//   s = torch.utils.data.DistributedSampler(range(n), num_replicas=w, rank=r, shuffle=shuffle, seed=seed, drop_last=drop)
//   s.set_epoch(epoch); print(list(s))
TEST_CASE("samples are divided as PyTorch's DistributedSampler divides them") {
  REQUIRE(divide(global_order(true, 10, 0, 0), 4, Uneven::kPad) ==
          std::vector<Indices>{{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}});
  REQUIRE(divide(global_order(true, 10, 0, 3), 4, Uneven::kPad) ==
          std::vector<Indices>{{6, 8, 2}, {0, 5, 4}, {3, 1, 6}, {7, 9, 0}});
  REQUIRE(divide(global_order(true, 10, 42, 1), 4, Uneven::kDrop) == std::vector<Indices>{{8, 5}, {4, 1}, {9, 6}, {0, 7}});
  REQUIRE(divide(global_order(true, 3, 7, 0), 8, Uneven::kPad) == std::vector<Indices>{{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}});
  REQUIRE(divide(global_order(false, 11, 0, 5), 2, Uneven::kDrop) == std::vector<Indices>{{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}});
}

// p = torch.randperm(100000, generator=torch.Generator().manual_seed(9)); p[:5], p[-3:]
// torch.randperm(8, generator=torch.Generator().manual_seed(-5))
TEST_CASE("permutations are torch.randperm's") {
  const Indices large = levin::random_permutation(100000, 9);
  REQUIRE(Indices(large.begin(), large.begin() + 5) == Indices{56670, 63842, 78086, 12914, 15282});
  REQUIRE(Indices(large.end() - 3, large.end()) == Indices{62232, 64280, 16382});
  REQUIRE(levin::random_permutation(8, -5) == Indices{6, 0, 5, 4, 7, 3, 2, 1});
  REQUIRE(levin::random_permutation(0, 1).empty());
}

// list(WeightedRandomSampler([0.1, 0.9, 0.4, 0, 3], 10, True, generator=torch.Generator().manual_seed(3 + 2)))
TEST_CASE("WeightedRandomSampler draws PyTorch's samples") {
  const std::vector<double> weights{0.1, 0.9, 0.4, 0, 3};
  const levin::EpochKey key{.dataset_size = 5, .seed = 3, .epoch = 2};
  REQUIRE(levin::WeightedRandomSampler(weights, 10).order(key) == Indices{4, 2, 4, 2, 2, 4, 4, 4, 4, 4});
  REQUIRE(levin::WeightedRandomSampler(weights, 4, false).order(key) == Indices{4, 1, 2, 0});
  REQUIRE(levin::WeightedRandomSampler(weights, 10).size(5) == 10);
  REQUIRE_THROWS_WITH(levin::WeightedRandomSampler(weights, 10).size(6), Contains("5 weights for a dataset of 6 samples"));
  REQUIRE_THROWS_WITH(levin::WeightedRandomSampler(weights, 5, false), Contains("5 samples cannot be drawn from 4"));
  REQUIRE_THROWS_WITH(levin::WeightedRandomSampler({0.5, -1.0}, 1), Contains("weight 1 is -1"));
  REQUIRE_THROWS_WITH(levin::WeightedRandomSampler({0.0, 0.0}, 1), Contains("every weight is 0"));
  REQUIRE_THROWS_AS(levin::WeightedRandomSampler({0.5}, -1), levin::MisuseError);
}

TEST_CASE("a rank outside the world is refused") {
  REQUIRE_THROWS_WITH(DistributedSampler(10, Shard{.rank = 2, .world_size = 2}), Contains("rank 2 of 2"));
  REQUIRE_THROWS_AS(DistributedSampler(10, Shard{.rank = -1, .world_size = 2}), levin::MisuseError);
  REQUIRE_THROWS_AS(DistributedSampler(10, Shard{.rank = 0, .world_size = 0}), levin::MisuseError);
}

TEST_CASE("each way to treat the remainder keeps its promise") {
  REQUIRE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(0, 60);
    const int world_size = *rc::gen::inRange(1, 9);
    const Indices order = global_order(true, size, *rc::gen::arbitrary<std::int64_t>(), *rc::gen::inRange(0, 1000));
    Indices sorted = order;
    std::sort(sorted.begin(), sorted.end());
    RC_ASSERT(sorted == global_order(false, size, 0, 0));

    const auto kept = divide(order, world_size, Uneven::kKeep);
    const auto padded = divide(order, world_size, Uneven::kPad);
    const auto dropped = divide(order, world_size, Uneven::kDrop);
    for (int rank = 0; rank < world_size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      RC_ASSERT(padded[r].size() == static_cast<std::size_t>((size + world_size - 1) / world_size));
      RC_ASSERT(dropped[r].size() == static_cast<std::size_t>(size / world_size));
      // The three agree where they overlap, and keeping gives each sample of the order once.
      for (std::size_t i = 0; i < padded[r].size(); ++i) {
        const std::size_t position = i * static_cast<std::size_t>(world_size) + r;
        RC_ASSERT(padded[r][i] == order[position % order.size()]);
        RC_ASSERT((i < kept[r].size()) == (position < order.size()));
        if (i < kept[r].size()) RC_ASSERT(kept[r][i] == padded[r][i]);
        if (i < dropped[r].size()) RC_ASSERT(dropped[r][i] == padded[r][i]);
      }
      RC_ASSERT(kept[r].size() <= padded[r].size());
    }
  }));
}

TEST_CASE("ranks have the same number of batches, unless kKeep keeps a last one, and with drop_last as many as one process") {
  REQUIRE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(0, 200);
    const int world_size = *rc::gen::inRange(1, 9);
    const auto batch_size = *rc::gen::inRange<std::int64_t>(1, 20);
    for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop, Uneven::kKeep}) {
      const auto batches = [&](int rank, bool drop_last) {
        return DistributedSampler(size, {.rank = rank, .world_size = world_size, .uneven = uneven})
            .batches(batch_size, drop_last);
      };
      for (int rank = 1; rank < world_size; ++rank) {
        RC_ASSERT(batches(rank, true) == batches(0, true));
        if (uneven != Uneven::kKeep) RC_ASSERT(batches(rank, false) == batches(0, false));
      }
      const std::int64_t of_one_process = DistributedSampler(size, {}).batches(batch_size * world_size, true);
      if (uneven != Uneven::kPad) RC_ASSERT(batches(0, true) == of_one_process);
    }
  }));
}

TEST_CASE("the sampler that the documentation shows keeps neighbours together, and gives each sample once") {
  const BlockShuffle sampler(BlockShuffleOptions{.block = 4});
  const levin::EpochKey key{.dataset_size = 10, .seed = 3, .epoch = 1};
  const Indices order = sampler.order(key);
  CHECK(order == sampler.order(key));
  CHECK(order != sampler.order({.dataset_size = 10, .seed = 3, .epoch = 2}));
  Indices sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Indices all(10);
  std::iota(all.begin(), all.end(), 0);
  CHECK(sorted == all);
  for (std::size_t i = 1; i < order.size(); ++i) {
    INFO(i);
    CHECK((order[i] == order[i - 1] + 1 || order[i] % 4 == 0));
  }
}
