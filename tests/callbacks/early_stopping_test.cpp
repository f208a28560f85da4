#include "levin/callbacks/early_stopping.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <vector>

using levin::EarlyStopping;

// What runs show of it is in acceptance/cases/early_stopping.txt.
TEST_CASE("early stopping equals an oracle over the whole history") {
  // The oracle looks at all scores again after each one, with nothing carried over but the history.
  REQUIRE(rc::check([] {
    const bool minimize = *rc::gen::arbitrary<bool>();
    const int patience = *rc::gen::inRange(1, 5);
    const int delta_eighths = *rc::gen::inRange(0, 4);
    const auto eighths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-24, 24));
    EarlyStopping stopping({.monitor = "m",
                            .min_delta = delta_eighths / 8.0,
                            .patience = patience,
                            .mode = minimize ? levin::MonitorMode::kMin : levin::MonitorMode::kMax});
    for (std::size_t now = 0; now < eighths.size(); ++now) {
      const bool stop = stopping.evaluate(eighths[now] / 8.0).stop;
      int best = 0;
      std::size_t best_at = 0;
      for (std::size_t i = 0; i <= now; ++i) {
        const int gain = minimize ? best - eighths[i] : eighths[i] - best;
        if (i == 0 || gain > delta_eighths) {
          best = eighths[i];
          best_at = i;
        }
      }
      RC_ASSERT(stopping.best_score() == best / 8.0);
      RC_ASSERT(stopping.wait_count() == static_cast<std::int64_t>(now - best_at));
      RC_ASSERT(stop == (now - best_at >= static_cast<std::size_t>(patience)));
    }
  }));
}
