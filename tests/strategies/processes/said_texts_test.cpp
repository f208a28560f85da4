#include "levin/strategies/processes/said_texts.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

using levin::SaidTexts;

TEST_CASE("a text is new once, whoever says it") {
  const auto said = std::make_unique<SaidTexts>();
  constexpr int kRanks = 4;
  constexpr std::uint64_t kTexts = 200;
  std::atomic<int> firsts = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      for (std::uint64_t text = 0; text < kTexts; ++text) firsts += said->is_first(text * 0x9e3779b97f4a7c15) ? 1 : 0;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(firsts == static_cast<int>(kTexts));
}

TEST_CASE("when there is no more room every text is new") {
  const auto said = std::make_unique<SaidTexts>();
  for (std::uint64_t text = 1; text <= 256; ++text) CHECK(said->is_first(text));
  CHECK_FALSE(said->is_first(256));
  CHECK(said->is_first(257));
  CHECK(said->is_first(257));
}
