#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/early_stopping.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("early stopping ends training after its patience, unless the metric recovers before min_epochs") {
  struct Row {
    std::int64_t patience;
    std::vector<double> scores;
    std::function<void(TrainerOptions&)> change;
    std::int64_t epochs;
    double best;
  };
  for (const Row& row :
       std::vector<Row>{{2, {3, 2, 2, 2, 1}, {}, 4, 2.0},
                        // Out of patience in epoch 1, better again from epoch 2 on, out of patience for good in epoch 6.
                        {1, {3, 3, 2, 1.5, 1, 0.5, 0.5}, [](auto& options) { options.min_epochs = 4; }, 7, 0.5},
                        {3, {3, 2, 2, 2, 2}, [](auto& options) { options.val_check_interval = Limit(0.5); }, 3, 2.0}}) {
    CAPTURE(row.scores);
    const auto stopping =
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_loss", .patience = row.patience});
    CHECK(epochs_of_fit(stopping, row.scores, 10, row.change) == row.epochs);
    CHECK(stopping->stopped_epoch() == row.epochs - 1);
    CHECK(stopping->stopping_reason() == EarlyStoppingReason::kPatienceExhausted);
    CHECK(stopping->best_score() == row.best);
  }
}

TEST_CASE("a missing metric is an error that names what there is, or is skipped") {
  EarlyStoppingOptions options{.monitor = "val_los"};
  CHECK_THROWS_WITH(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3),
                    Catch::Contains("'val_los'") && Catch::Contains("'val_loss'"));
  CHECK_NOTHROW(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3, [](auto& dry) { dry.fast_dev_run = 1; }));
  options.strict = false;
  CHECK(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3) == 3);
}
