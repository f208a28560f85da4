#include "levin/core/diagnostics/work_watch.h"

#include <catch2/catch.hpp>

using namespace levin;

namespace {

/// Spans of ten steps, of ranks that spend so many milliseconds a step on their loaders, and as many as all others on the rest.
class Spans {
 public:
  std::optional<Straggler> add(const std::vector<std::int64_t>& loader_ms, std::int64_t forward_ms = 20) {
    std::vector<BoundaryPayload> payloads;
    for (const std::int64_t ms : loader_ms) payloads.push_back({ms * 10'000'000, forward_ms * 10'000'000, 5'000'000, 0});
    step_ += 10;
    return watch_.look(payloads, step_);
  }
  std::optional<Straggler> add_many(int spans, const std::vector<std::int64_t>& loader_ms) {
    std::optional<Straggler> found;
    for (int span = 0; span < spans && !found; ++span) found = add(loader_ms);
    return found;
  }

 private:
  StragglerWatch watch_;
  std::int64_t step_ = 0;
};

}  // namespace

TEST_CASE("a rank's own work is measured by kind, without its waits for others") {
  double now = 100;
  WorkMeter meter([&] { return now; });
  meter.begin(/*alone=*/false);
  {
    const WorkScope hooks(meter, Work::kHooks);
    now += 1;
    {
      const WorkScope backward(meter, Work::kBackward);
      now += 5;
      meter.waited(3);
      const WorkScope hook_in_it(meter, Work::kHooks);
      now += 0.25;
    }
    now += 2;
    CHECK(meter.take() == BoundaryPayload{0, 0, 2'000'000'000, 3'250'000'000, /*waits*/ 3'000'000'000});
    now += 1;
    const WorkScope loader(meter, Work::kLoader);
    now += 4;
  }
  now += 50;
  meter.waited(3);
  CHECK(meter.take() == BoundaryPayload{4'000'000'000, 0, 0, 1'000'000'000});
  meter.begin(/*alone=*/true);
  const WorkScope hooks(meter, Work::kHooks);
  now += 1;
  CHECK(meter.take() == BoundaryPayload{});
}

TEST_CASE("a rank that is slow in five spans and by two seconds is a straggler, once") {
  Spans spans;
  CHECK_FALSE(spans.add({90, 90, 90, 90}));  // the first, which does not count
  CHECK_FALSE(spans.add_many(4, {2, 3, 64, 4}));
  const auto found = spans.add({2, 3, 64, 4});
  REQUIRE(found);
  CHECK(found->rank == 2);
  CHECK(found->kind == Work::kLoader);
  CHECK(found->own == Approx(0.0845));
  CHECK(found->others == Approx(0.0235));
  CHECK(found->own_of_kind == Approx(0.064));
  CHECK(found->others_of_kind == Approx(0.003));
  CHECK(found->own_before == 0);
  CHECK(found->text("node7") ==
        "Rank 2 on node7 delays the others: in this fit its own work has taken 84.5 ms per step, the others' 23.5 ms (median). "
        "The difference is in the data loader: 64.0 ms, the others' 3.0 ms.");
  CHECK_FALSE(spans.add_many(20, {2, 3, 64, 4}));
  CHECK(spans.add_many(6, {64, 3, 4, 4})->rank == 0);
}

TEST_CASE("a straggler that was as fast as the others is reported with the step since which it is not") {
  Spans spans;
  CHECK_FALSE(spans.add_many(11, {2, 2}));
  const auto found = spans.add_many(9, {2, 80});
  REQUIRE(found);
  CHECK(found->since == 110);
  CHECK(found->own_before == Approx(0.0225));
  CHECK_THAT(found->text("node7"), Catch::Contains("since step 110 its own work has taken 100.5 ms per step") &&
                                       Catch::Contains("(median); before, it took 22.5 ms."));
}

TEST_CASE("ranks that are slow by turns, a little, or for a moment are no stragglers") {
  CHECK_FALSE(Spans().add_many(100, {2, 12}));  // less than half more
  Spans by_turns;
  for (int turn = 0; turn < 50; ++turn) {
    CHECK_FALSE(by_turns.add_many(4, {2, 90, 2}));
    CHECK_FALSE(by_turns.add_many(4, {90, 2, 2}));
  }
  Spans now_and_then;
  for (int turn = 0; turn < 50; ++turn) {
    CHECK_FALSE(now_and_then.add_many(4, {2, 90}));
    CHECK_FALSE(now_and_then.add({2, 2}));
  }
  Spans small;  // twice as slow, but never by two seconds
  for (int span = 0; span < 60; ++span) CHECK_FALSE(small.add({0, 3}, /*forward_ms=*/1));
  CHECK_FALSE(Spans().add_many(100, {90}));
}
