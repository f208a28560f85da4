#include "levin/core/engine/parts/epoch_plan.h"

#include <catch2/catch.hpp>

using levin::Limit;

TEST_CASE("an int limits batches to a number, a float to a share rounded down") {
  CHECK(levin::limited_batches(10, Limit(1), "x") == 1);
  CHECK(levin::limited_batches(10, Limit(1.0), "x") == 10);
  CHECK(levin::limited_batches(10, Limit(0.39), "x") == 3);
  CHECK(levin::limited_batches(10, Limit(25), "x") == 10);
  CHECK(levin::limited_batches(10, Limit(0), "x") == 0);
  CHECK(levin::limited_batches(10, std::nullopt, "x") == 10);
  CHECK_THROWS_WITH(levin::limited_batches(10, Limit(0.01), "limit_val_batches"),
                    Catch::Contains("limit_val_batches") && Catch::Contains("0.01") && Catch::Contains("10 batches"));
}

TEST_CASE("an unknown number of batches takes numbers, and shares of nothing or all only") {
  CHECK(levin::limited_batches(std::nullopt, Limit(3), "x") == std::nullopt);
  CHECK(levin::limited_batches(std::nullopt, Limit(0), "x") == 0);
  CHECK(levin::limited_batches(std::nullopt, Limit(0.0), "x") == 0);
  CHECK(levin::limited_batches(std::nullopt, Limit(1.0), "x") == std::nullopt);
  CHECK_THROWS_AS(levin::limited_batches(std::nullopt, Limit(0.5), "x"), levin::ConfigError);
}

namespace {
/// The batches, counted over epochs, after which validation runs.
std::vector<std::int64_t> due(const levin::ValidationSchedule& schedule, std::int64_t epochs, std::int64_t batches) {
  std::vector<std::int64_t> when;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const std::int64_t total = epoch * batches + batch;
      if (schedule.due(epoch, batch, total, batch + 1 == batches)) when.push_back(total);
    }
  }
  return when;
}
}  // namespace

TEST_CASE("validation runs where Lightning runs it") {
  using Expected = std::vector<std::int64_t>;
  const levin::ValidationSchedule every_epoch(std::nullopt, 1, 4, true);
  CHECK(due(every_epoch, 2, 4) == Expected{3, 7});
  const levin::ValidationSchedule half(Limit(0.5), 1, 5, true);  // int(5 * 0.5) = every 2 batches of an epoch
  CHECK(due(half, 2, 5) == Expected{1, 3, 6, 8});
  const levin::ValidationSchedule third(Limit(3), 1, 4, true);
  CHECK(due(third, 2, 4) == Expected{2, 6});
  const levin::ValidationSchedule across(Limit(3), std::nullopt, 4, true);
  CHECK(due(across, 2, 4) == Expected{2, 5});
  const levin::ValidationSchedule second_epoch(std::nullopt, 2, 4, true);
  CHECK(due(second_epoch, 4, 4) == Expected{7, 15});
  const levin::ValidationSchedule unknown(std::nullopt, 1, std::nullopt, true);
  CHECK(due(unknown, 2, 4) == Expected{3, 7});
  const levin::ValidationSchedule disabled(std::nullopt, 1, 4, false);
  CHECK(due(disabled, 2, 4).empty());
  const levin::ValidationSchedule tiny(Limit(0.01), 1, 4, true);  // at least every batch
  CHECK(due(tiny, 1, 4) == Expected{0, 1, 2, 3});
}

TEST_CASE("a validation interval that does not fit the epoch is an error that says what to do") {
  CHECK_THROWS_WITH(levin::ValidationSchedule(Limit(5), 1, 4, true), Catch::Contains("val_check_interval: 5"));
  CHECK_THROWS_WITH(levin::ValidationSchedule(Limit(0.5), 1, std::nullopt, true), Catch::Contains("not known"));
  CHECK_NOTHROW(levin::ValidationSchedule(Limit(5), std::nullopt, 4, true));
}

TEST_CASE("an epoch goes on until the last rank runs out, or the first under manual optimization") {
  CHECK(levin::EpochPlan({3, 1, 2}, false).iterations() == 3);
  CHECK(levin::EpochPlan({3, 1, 2}, true).iterations() == 1);
  CHECK(levin::EpochPlan({3, 3}, false).is_last(2));
  CHECK_FALSE(levin::EpochPlan({3, 3}, false).is_last(1));
  CHECK_FALSE(levin::EpochPlan({3, -1}, false).known());
  CHECK_FALSE(levin::EpochPlan({3, -1}, false).is_last(2));
}
