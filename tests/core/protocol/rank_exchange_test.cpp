#include "levin/core/protocol/control_group.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <type_traits>

#include "levin/core/base/error.h"
#include "support/simulated_ranks.h"

using namespace levin;

namespace {

const Meeting kTest("a test", "it is written so");

/// Runs `body` on so many ranks, which all end well; gives how many exchanges they made.
std::int64_t exchanges_of(int ranks, const std::function<void(RankExchange, int rank)>& body) {
  testing::SimulatedRanks simulated;
  const auto result = simulated.run(ranks, 3, [&](ControlGroup& group) { body(RankExchange(group), group.rank()); });
  for (const auto& error : result.errors) CHECK(!error);
  return result.exchanges;
}

}  // namespace

TEST_CASE("a meeting cannot be made without the reason for which every rank comes to it") {
  STATIC_REQUIRE_FALSE(std::is_default_constructible_v<Meeting>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Meeting, const char*>);
  CHECK(Meeting("opening a logger", "all have the same loggers").text() ==
        std::string("opening a logger (every rank comes here, since all have the same loggers)"));
}

TEST_CASE("texts of any length are gathered in the order of ranks") {
  const auto own = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 100, static_cast<char>('a' + rank)); };
  const auto exchanges = exchanges_of(5, [&](RankExchange exchange, int rank) {
    const auto texts = exchange.gather_text(own(rank), kTest);
    for (int peer = 0; peer < 5; ++peer) CHECK(texts.at(static_cast<std::size_t>(peer)) == own(peer));
    CHECK(exchange.gather_text("", kTest) == std::vector<std::string>(5));
  });
  CHECK(exchanges == 4);
}

TEST_CASE("texts for rank 0 alone come to it in one exchange, and to nobody else") {
  const auto exchanges = exchanges_of(3, [](RankExchange exchange, int rank) {
    const std::string own(static_cast<std::size_t>(rank), 'x');
    const auto texts = exchange.gather_text_to_rank_zero(own, kTest);
    CHECK(texts == (rank == 0 ? std::vector<std::string>{"", "x", "xx"} : std::vector<std::string>()));
  });
  CHECK(exchanges == 1);
}

TEST_CASE("a text may be as long as whoever gathers it says") {
  const std::string text(100, 'x');
  exchanges_of(2, [&](RankExchange exchange, int) {
    CHECK(exchange.gather_text(text, kTest, 100) == std::vector<std::string>{text, text});
    const auto refused = Catch::Contains(
        "rank 0 announces 100 bytes in a test (every rank comes here, since it is written so), where 99 are the most");
    CHECK_THROWS_WITH(exchange.gather_text(text, kTest, 99), refused);
    CHECK_THROWS_WITH(exchange.gather_text_to_rank_zero(text, kTest, 99), refused);
    CHECK_THROWS_WITH(exchange.broadcast_text(text, kTest, 99), refused);
  });
}

TEST_CASE("what rank 0 has comes to every rank") {
  const auto exchanges = exchanges_of(3, [](RankExchange exchange, int rank) {
    CHECK(exchange.broadcast_text(rank == 0 ? "version_7" : "", kTest) == "version_7");
    CHECK(exchange.broadcast_value(rank == 0 ? std::optional(0.5) : std::nullopt, kTest) == 0.5);
    CHECK(exchange.broadcast_value(rank == 0 ? std::optional<double>() : 1.5, kTest) == std::nullopt);
    CHECK(exchange.gather_values(rank * 10, kTest) == std::vector<int>{0, 10, 20});
  });
  CHECK(exchanges == 4);
}

TEST_CASE("bytes of ranks come one after another") {
  exchanges_of(3, [](RankExchange exchange, int rank) {
    const std::array<std::byte, 2> mine = {std::byte(rank), std::byte(9)};
    const std::vector<std::byte> all = {std::byte(0), std::byte(9), std::byte(1), std::byte(9), std::byte(2), std::byte(9)};
    CHECK(exchange.gather_bytes(mine, kTest) == all);
  });
}

TEST_CASE("texts that are the same cost one exchange, and others show their first difference on every rank") {
  const auto compared = [](const std::vector<std::string>& texts) {
    std::vector<std::string> found(texts.size());
    const auto exchanges = exchanges_of(static_cast<int>(texts.size()), [&](RankExchange exchange, int rank) {
      const auto own = static_cast<std::size_t>(rank);
      const auto difference = exchange.first_difference(texts[own], kTest);
      found[own] = difference ? difference->str() : "the same";
    });
    CHECK(found == std::vector<std::string>(texts.size(), found.front()));
    return found.front() + ", " + std::to_string(exchanges);
  };
  CHECK(compared({"a\nb\n", "a\nb\n", "a\nb\n"}) == "the same, 1");
  CHECK(compared({"a\nb\n", "a\nb\n", "a\nc\n"}) == "Rank 0 has `b`, rank 2 has `c` (line 2), 3");
  CHECK(compared({"a\nb\n", "a\n"}) == "Rank 0 has `b`, rank 1 has `nothing more` (line 2), 3");
  CHECK(compared({"a\n", "a\nb\nc\n"}) == "Rank 0 has `nothing more`, rank 1 has `b` (line 2), 3");
  CHECK(compared({"a\nnothing more", "a"}) == "Rank 0 has `nothing more`, rank 1 has `nothing more` (line 2), 3");
}

TEST_CASE("one rank alone exchanges nothing") {
  SingleProcessGroup group;
  RankExchange alone(group);
  CHECK(alone.gather_text("x", kTest) == std::vector<std::string>{"x"});
  CHECK(alone.broadcast_value(4, kTest) == 4);
  CHECK_FALSE(alone.gather_if_different("x", kTest));
  CHECK_FALSE(alone.first_difference("x", kTest));
}

TEST_CASE("ranks that come to different meetings all learn of both, with the reasons that they had") {
  testing::SimulatedRanks simulated;
  const auto result = simulated.run(2, 3, [&](ControlGroup& group) {
    RankExchange exchange(group);
    if (group.rank() == 0) exchange.gather_values(1, {"writing a checkpoint", "all save alike"});
    if (group.rank() == 1) exchange.gather_values(std::int64_t{1}, {"opening a logger", "all have it"});
  });
  CHECK(result.calls_differed);
  for (const auto& error : result.errors) {
    CHECK_THROWS_WITH(error ? std::rethrow_exception(error) : void(),
                      Catch::Contains("rank 0: writing a checkpoint (every rank comes here, since all save alike)") &&
                          Catch::Contains("rank 1: opening a logger (every rank comes here, since all have it)"));
  }
}
