#include "levin/strategies/host/run_segment.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

using levin::SharedKeySet;

TEST_CASE("a key is new once, whoever inserts it") {
  const auto keys = std::make_unique<SharedKeySet>();
  constexpr int kRanks = 4;
  constexpr std::uint64_t kKeys = 200;
  std::atomic<int> firsts = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      for (std::uint64_t key = 0; key < kKeys; ++key) firsts += keys->insert(key * 0x9e3779b97f4a7c15) ? 1 : 0;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(firsts == static_cast<int>(kKeys));
}

TEST_CASE("when there is no more room every key is new") {
  const auto keys = std::make_unique<SharedKeySet>();
  for (std::uint64_t key = 1; key <= 256; ++key) CHECK(keys->insert(key));
  CHECK_FALSE(keys->insert(256));
  CHECK(keys->insert(257));
  CHECK(keys->insert(257));
}
