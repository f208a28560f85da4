#include "levin/core/base/shared_interval.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <vector>

using levin::SharedInterval;

namespace {

struct Run {
  std::vector<double> passed_at;  ///< rank 0's time at the end of each span
  std::int64_t exchanges = 0;
  bool ranks_met = true;  ///< all ranks wanted to meet in the same batches
};

/// Three ranks with separate clocks over `batches` batches; batch i takes rank 0 seconds_of(i).
template <class SecondsOf>
Run simulate(double interval, std::int64_t batches, SecondsOf seconds_of) {
  Run run;
  std::vector<SharedInterval> ranks(3, SharedInterval(interval));
  double now = 100;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].start(now + 1000.0 * static_cast<double>(rank));
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    now += seconds_of(batch);
    std::vector<bool> wants;
    for (SharedInterval& rank : ranks) wants.push_back(rank.batch_done());
    run.ranks_met = run.ranks_met && wants == std::vector<bool>(ranks.size(), wants.front());
    if (!wants.front()) continue;
    ++run.exchanges;
    const SharedInterval::Proposal proposal = ranks.front().propose(now);
    std::vector<bool> passed;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      passed.push_back(ranks[rank].accept(proposal, now + 1000.0 * static_cast<double>(rank)));
    }
    run.ranks_met = run.ranks_met && passed == std::vector<bool>(ranks.size(), passed.front());
    if (passed.front()) run.passed_at.push_back(now - 100);
  }
  return run;
}

}  // namespace

TEST_CASE("a span of time ends at the first batch after it, with few exchanges") {
  const Run run = simulate(60, 30000, [](std::int64_t) { return 0.01; });
  REQUIRE(run.passed_at.size() == 4);
  CHECK(run.passed_at[0] == Approx(60).margin(0.03));
  CHECK(run.passed_at[3] == Approx(240).margin(0.12));
  CHECK(run.ranks_met);
  CHECK(run.exchanges < 100);  // of 30000 batches
}

TEST_CASE("an interval of 0 ends at every batch") {
  CHECK(simulate(0, 7, [](std::int64_t) { return 0.5; }).passed_at == std::vector<double>{0.5, 1, 1.5, 2, 2.5, 3, 3.5});
}

TEST_CASE("ranks meet in the same batches at any pace") {
  rc::check([] {
    const double interval = *rc::gen::inRange(0, 50) / 10.0;
    const auto tenths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30));
    const auto batches = static_cast<std::int64_t>(tenths.size());
    const Run run = simulate(interval, batches, [&](std::int64_t i) { return tenths[static_cast<std::size_t>(i)] / 10.0; });
    RC_ASSERT(run.ranks_met);
    double last = 0;
    for (const double at : run.passed_at) {
      RC_ASSERT(at - last >= interval - 1e-9);  // never early
      last = at;
    }
  });
}
