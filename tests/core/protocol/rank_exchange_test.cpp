// Data that ranks exchange, and its cost: no more than its size, on any number of ranks.
#include <array>
#include <catch2/catch.hpp>
#include <type_traits>

#include "levin/core/base/error.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_store.h"
#include "support/counting_group.h"
#include "support/simulated_ranks.h"

namespace levin::testing {
namespace {

const ExchangeSite kTest("a test", "it is written so");

/// Runs `body` on so many ranks, which all end well; gives what each of them counts.
std::vector<ExchangeCounts> counted(int ranks, const std::function<void(RankExchange, int rank)>& body) {
  SimulatedRanks simulated;
  std::vector<ExchangeCounts> counts(static_cast<std::size_t>(ranks));
  const auto result = simulated.run(ranks, /*seed=*/3, [&](ControlGroup& group) {
    CountingGroup counting(group);
    body(RankExchange(counting), group.rank());
    counts[static_cast<std::size_t>(group.rank())] = counting.take();
  });
  for (const auto& error : result.errors) CHECK(!error);
  return counts;
}

TEST_CASE("an exchange site cannot be made without the reason for which every rank comes to it") {
  STATIC_REQUIRE_FALSE(std::is_default_constructible_v<ExchangeSite>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<ExchangeSite, const char*>);
  CHECK(ExchangeSite("opening a logger", "all have the same loggers").text() ==
        std::string("opening a logger (every rank comes here, since all have the same loggers)"));
}

TEST_CASE("texts of any length are gathered in the order of ranks, and cost what all hold, not the longest of each") {
  const auto own = [](int rank) { return std::string(rank == 1 ? 50'000 : static_cast<std::size_t>(rank) * 100, 'a'); };
  const auto counts = counted(4, [&](RankExchange exchange, int rank) {
    CHECK(exchange.gather_text(own(rank), kTest) == std::vector<std::string>{own(0), own(1), own(2), own(3)});
  });
  const std::size_t all = 50'000 + 200 + 300;
  const std::size_t joined = all + 4 * sizeof(std::uint32_t);
  CHECK(counts[0] == ExchangeCounts{2, joined, all + joined});
  CHECK(counts[2] == ExchangeCounts{2, 200, joined});
  counted(4, [](RankExchange exchange, int) { CHECK(exchange.gather_text("", kTest) == std::vector<std::string>(4)); });
}

TEST_CASE("texts for rank 0 alone come to it in one exchange, and to no other rank") {
  for (const std::size_t ranks : {4, 512}) {
    const auto counts = counted(static_cast<int>(ranks), [&](RankExchange exchange, int rank) {
      const auto texts =
          exchange.gather_text_to_rank_zero(std::string(rank == 1 ? 50'000 : 100, static_cast<char>('a' + rank % 2)), kTest);
      REQUIRE(texts.size() == (rank == 0 ? ranks : 0));
      if (rank == 0) CHECK((texts[0] == std::string(100, 'a') && texts[1] == std::string(50'000, 'b')));
    });
    CHECK(counts[0] == ExchangeCounts{1, 100, 50'000 + (ranks - 1) * 100});
    CHECK(counts[1] == ExchangeCounts{1, 50'000, 0});
    CHECK(counts[3] == ExchangeCounts{1, 100, 0});
  }
}

TEST_CASE("a text may be as long as the call says") {
  const std::string text(100, 'x');
  counted(2, [&](RankExchange exchange, int) {
    CHECK(exchange.gather_text(text, kTest, 100) == std::vector<std::string>{text, text});
    const auto refused = Catch::Contains(
        "rank 0 announces 100 bytes in a test (every rank comes here, since it is written so), where the limit is 99");
    CHECK_THROWS_WITH(exchange.gather_text(text, kTest, 99), refused);
    CHECK_THROWS_WITH(exchange.gather_text_to_rank_zero(text, kTest, 99), refused);
    CHECK_THROWS_WITH(exchange.broadcast_text(text, kTest, 99), refused);
  });
}

TEST_CASE("what rank 0 has comes to every rank once, on 512 ranks as on 4") {
  for (const int ranks : {4, 512}) {
    const auto counts = counted(ranks, [](RankExchange exchange, int rank) {
      CHECK(exchange.broadcast_text(rank == 0 ? "lightning_logs/version_7" : "not asked for", kTest) ==
            "lightning_logs/version_7");
    });
    CHECK(counts[0] == ExchangeCounts{1, 24, 24});
    CHECK(counts[2] == ExchangeCounts{1, 0, 24});
  }
}

TEST_CASE("values and bytes of ranks come one after another, and rank 0's to all, each in one exchange") {
  const auto counts = counted(3, [](RankExchange exchange, int rank) {
    CHECK(exchange.broadcast_value(rank == 0 ? std::optional(0.5) : std::nullopt, kTest) == 0.5);
    CHECK(exchange.broadcast_value(rank == 0 ? std::optional<double>() : 1.5, kTest) == std::nullopt);
    CHECK(exchange.gather_values(rank * 10, kTest) == std::vector<int>{0, 10, 20});
    const std::array<std::byte, 2> mine = {std::byte(rank), std::byte(9)};
    const std::vector<std::byte> all = {std::byte(0), std::byte(9), std::byte(1), std::byte(9), std::byte(2), std::byte(9)};
    CHECK(exchange.gather_bytes(mine, kTest) == all);
  });
  CHECK(counts[0].exchanges == 4);
}

TEST_CASE("texts that are the same cost one exchange, and others show their first difference on every rank") {
  const auto compared = [](const std::vector<std::string>& texts) {
    std::vector<std::string> found(texts.size());
    const auto counts = counted(static_cast<int>(texts.size()), [&](RankExchange exchange, int rank) {
      const auto own = static_cast<std::size_t>(rank);
      const auto difference = exchange.first_difference(texts[own], kTest);
      found[own] = difference ? difference->str() : "the same";
    });
    CHECK(found == std::vector<std::string>(texts.size(), found.front()));
    return found.front() + ", " + std::to_string(counts[0].exchanges);
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

TEST_CASE("a long text that all ranks have alike is compared with as few bytes on 512 ranks as on 4") {
  const auto compare = [](RankExchange exchange, int) {
    CHECK_FALSE(exchange.first_difference(std::string(50'000, 't'), kTest));
  };
  const ExchangeCounts few = counted(4, compare)[0];
  CHECK(few.exchanges == 1);
  CHECK(few.given <= 16);
  CHECK(counted(512, compare)[0] == ExchangeCounts{1, few.given, 512 * few.given});
}

TEST_CASE("a boundary takes as many exchanges, and as many bytes of each rank, on 512 ranks as on 4") {
  const auto boundary = [](int ranks) {
    SimulatedRanks simulated;
    ExchangeCounts counts;
    simulated.run(ranks, /*seed=*/1, [&](ControlGroup& group) {
      CountingGroup counting(group);
      MetricStore store(counting, {});
      store.begin_stage(Stage::kTrain);
      store.begin_batch({.batch_size = 8});
      for (const int epoch : {0, 1}) {  // in the first one ranks tell one another of the keys, too
        counting.take();
        store.enter(Hook::kTrainingStep);
        const CallSite here = SourceLocation::current();
        for (const char* name : {"loss", "accuracy", "norm"}) store.log(name, 0.5, {.on_epoch = true, .sync_dist = true}, here);
        store.meet({BoundaryKind::kEpochReached, Stage::kTrain, epoch, epoch}, {}, {});
        store.reset_epoch();
      }
      if (group.rank() == 0) counts = counting.take();
    });
    return counts;
  };
  const ExchangeCounts few = boundary(4);
  CHECK(few.exchanges == 1);
  CHECK(few.given > 0);
  CHECK(few.got == 4 * few.given);
  CHECK(boundary(512) == ExchangeCounts{few.exchanges, few.given, 512 * few.given});
}

}  // namespace
}  // namespace levin::testing
