#include "levin/core/random/rng_state.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/random/seed.h"

using namespace levin;

namespace {
at::Tensor rng_state() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }
}  // namespace

TEST_CASE("a snapshot of the generator brings back every number, one of a pair included") {
  torch::manual_seed(100);
  torch::randn({3});  // an odd number of normals leaves one in the generator's cache
  (void)torch::randn({1}).item<float>();
  const RandomSnapshot snapshot = RandomSnapshot::take();
  const at::Tensor state = rng_state();
  CHECK(at::equal(snapshot.states(/*rank=*/0).at("cpu"), state));
  const at::Tensor expected = torch::randn({7});
  snapshot.restore();
  CHECK(at::equal(torch::randn({7}), expected));
  set_random_states({{"cpu", snapshot.states(/*rank=*/0).at("cpu")}}, /*rank=*/0);
  CHECK(at::equal(torch::randn({7}), expected));
}

TEST_CASE("a scope leaves random numbers as they were, also when it ends with an error") {
  torch::manual_seed(3);
  const at::Tensor before = rng_state();
  const auto draw = [] {
    const RandomScope scope;
    torch::rand({5});
    throw std::runtime_error("ends");
  };
  CHECK_THROWS(draw());
  CHECK(at::equal(rng_state(), before));
}

TEST_CASE("bytes that are no generator's state are refused, and the generator is as it was") {
  torch::manual_seed(5);
  const at::Tensor before = rng_state();
  CHECK_THROWS_AS(set_random_states({{"cpu", torch::zeros({3}, torch::kByte)}}, 0), IoError);
  CHECK_THROWS_AS(set_random_states({{"cpu", torch::zeros({5056})}}, 0), IoError);
  CHECK(at::equal(rng_state(), before));
}

TEST_CASE("seed_everything makes random numbers repeat") {
  CHECK(seed_everything(42) == 42);
  const at::Tensor first = torch::randn({4});
  const int first_rand = std::rand();
  seed_everything(42);
  CHECK(at::equal(torch::randn({4}), first));
  CHECK(std::rand() == first_rand);
  seed_everything(43);
  CHECK_FALSE(at::equal(torch::randn({4}), first));
}

TEST_CASE("each stream has another seed, in the 32 bits that generators use") {
  for (const std::uint64_t seed : {0ull, 1ull, 42ull, 0xffffffffull, 0x100000000ull, 67280421310721ull}) {
    std::set<std::uint64_t> seeds{seed & 0xffffffff};
    for (RandomStream stream = 0; stream < 1000; ++stream) seeds.insert(stream_seed(seed, stream));
    CHECK(seeds.size() == 1001);
    CHECK(*seeds.rbegin() <= 0xffffffff);
  }
  CHECK(stream_seed(5, kSharedStream) == 5 + 0x9e3779b9);
  CHECK(stream_seed(5, stream_of_rank(1)) == (5 + 3 * 0x9e3779b9ull) % 0x100000000);
  // Nor do programs whose seeds are near one another share a stream.
  std::set<std::uint64_t> near;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    near.insert(seed);
    for (RandomStream stream = 0; stream < 100; ++stream) near.insert(stream_seed(seed, stream));
  }
  CHECK(near.size() == 100 * 101);
}

TEST_CASE("a stream continues from where a snapshot was, and one that had not been asked for begins again") {
  const auto draw = [](RandomStream stream) {
    return torch::randn({3}, stream_generator(stream)).to(torch::kDouble).sum().item<double>();
  };
  const RandomStream own = stream_of_rank(2);
  const RandomStream other = stream_of_rank(3);
  seed_generators(11);
  const at::Generator held = stream_generator(own);
  const double first = draw(own);
  const auto snapshot = RandomSnapshot::take();
  const double second = draw(own);
  const double others = draw(other);
  const double shared = draw(kSharedStream);
  CHECK(first != second);
  snapshot.restore();
  CHECK(draw(own) == second);
  CHECK(draw(other) == others);
  CHECK(stream_generator(own) == held);

  seed_generators(12);
  CHECK(draw(own) != first);
  RandomStates states = snapshot.states(/*rank=*/2);
  CHECK(states.contains("own"));
  states["seed"] = torch::tensor(std::int64_t{11});
  set_random_states(states, /*rank=*/2);
  CHECK(draw(own) == second);
  CHECK(draw(kSharedStream) == shared);
  set_random_states({}, /*rank=*/2);
  CHECK(draw(own) == first);
  CHECK_THROWS_AS(set_random_states({{"own", torch::zeros({3}, torch::kByte)}}, 2), IoError);
}
