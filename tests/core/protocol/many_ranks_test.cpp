// What the runtime's own meetings cost must not grow faster than what ranks tell one another.
#include <catch2/catch.hpp>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_store.h"
#include "support/counting_group.h"
#include "support/simulated_ranks.h"

namespace levin::testing {
namespace {

/// What a rank counts in `act`, on so many ranks.
template <class Act>
ExchangeCounts counted(int ranks, const Act& act, int rank = 0) {
  SimulatedRanks simulation;
  ExchangeCounts counts;
  simulation.run(ranks, /*seed=*/1, [&](ControlGroup& group) {
    CountingGroup counting(group);
    act(counting);
    if (group.rank() == rank) counts = counting.take();
  });
  return counts;
}

void log_and_meet(MetricStore& store, int epoch) {
  store.enter(Hook::kTrainingStep);
  const CallSite here = SourceLocation::current();
  for (const char* name : {"loss", "accuracy", "norm"}) store.log(name, 0.5, {.on_epoch = true, .sync_dist = true}, here);
  store.meet({BoundaryKind::kEpochReached, Stage::kTrain, epoch, epoch}, {}, {});
  store.reset_epoch();
}

TEST_CASE("a boundary takes as many exchanges, and as many bytes of each rank, on 512 ranks as on 4") {
  const auto boundary = [](CountingGroup& group) {
    MetricStore store(group, {});
    store.begin_stage(Stage::kTrain);
    store.begin_batch({.batch_size = 8});
    log_and_meet(store, 0);
    group.take();
    log_and_meet(store, 1);
  };
  const ExchangeCounts few = counted(4, boundary);
  const ExchangeCounts many = counted(512, boundary);
  CHECK(few.exchanges == 1);
  CHECK(few.given > 0);
  CHECK(few.got == 4 * few.given);
  CHECK(many == ExchangeCounts{few.exchanges, few.given, 512 * few.given});
}

TEST_CASE("a long text that all ranks have alike is compared with as few bytes on 512 ranks as on 4") {
  const std::string text(50'000, 't');
  const auto compare = [&](CountingGroup& group) {
    CHECK_FALSE(RankExchange(group).first_difference(text, Meeting("a test", "all do the same")));
  };
  const ExchangeCounts few = counted(4, compare);
  CHECK(few.exchanges == 1);
  CHECK(few.given <= 16);
  CHECK(counted(512, compare) == ExchangeCounts{1, few.given, 512 * few.given});
}

TEST_CASE("what only rank 0 needs comes to no other rank, and parts of different sizes cost what they hold") {
  const auto gather = [](CountingGroup& group) {
    const std::string state(group.rank() == 1 ? 50'000 : 100, 's');
    RankExchange(group).gather_text_to_rank_zero(state, Meeting("a test", "all do the same"));
  };
  for (const std::size_t ranks : {4, 512}) {
    const auto number = static_cast<int>(ranks);
    CHECK(counted(number, gather, 0) == ExchangeCounts{1, 100, 50'000 + (ranks - 1) * 100});
    CHECK(counted(number, gather, 1) == ExchangeCounts{1, 50'000, 0});
    CHECK(counted(number, gather, 3) == ExchangeCounts{1, 100, 0});
  }
}

TEST_CASE("what rank 0 tells comes to every rank once, on 512 ranks as on 4") {
  const auto tell = [](CountingGroup& group) {
    const std::string folder = group.rank() == 0 ? "lightning_logs/version_7" : "not asked for";
    CHECK(RankExchange(group).broadcast_text(folder, Meeting("a test", "all do the same")) == "lightning_logs/version_7");
  };
  for (const int ranks : {4, 512}) {
    CHECK(counted(ranks, tell, 0) == ExchangeCounts{1, 24, 24});
    CHECK(counted(ranks, tell, 2) == ExchangeCounts{1, 0, 24});
  }
}

TEST_CASE("texts that every rank gets cost what all hold, not the longest of each") {
  const auto gather = [](CountingGroup& group) {
    const std::string text(group.rank() == 1 ? 50'000 : 10, 't');
    CHECK(RankExchange(group).gather_text(text, Meeting("a test", "all do the same"))[1].size() == 50'000);
  };
  const std::size_t all = 50'000 + 3 * 10;
  const std::size_t joined = all + 4 * sizeof(std::uint32_t);
  CHECK(counted(4, gather, 0) == ExchangeCounts{2, 10 + joined, all + joined});
  CHECK(counted(4, gather, 2) == ExchangeCounts{2, 10, joined});
}

}  // namespace
}  // namespace levin::testing
