// What the runtime's own meetings cost must not grow faster than what ranks tell one another.
#include <catch2/catch.hpp>

#include "levin/core/protocol/metric_store.h"
#include "levin/core/protocol/rank_exchange.h"
#include "support/counting_group.h"
#include "support/simulated_ranks.h"

namespace levin::testing {
namespace {

/// What rank 0 counts in `act`, on so many ranks.
template <class Act>
ExchangeCounts counted(int ranks, const Act& act) {
  SimulatedRanks simulation;
  ExchangeCounts counts;
  simulation.run(ranks, /*seed=*/1, [&](ControlGroup& group) {
    CountingGroup counting(group);
    act(counting);
    if (group.rank() == 0) counts = counting.take();
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

}  // namespace
}  // namespace levin::testing
