#include "levin/core/base/metric_names.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "levin/core/base/error.h"
#include "levin/core/protocol/metrics.h"

using namespace levin;

TEST_CASE("a metric's name says which direction is better, where it says so at all") {
  for (const char* name : {"acc", "val_acc", "val/accuracy", "Test-F1", "train_auc_epoch", "IoU", "recall@5"}) {
    INFO(name);
    CHECK(is_larger_better(name) == true);
  }
  for (const char* name : {"loss", "val_loss", "train/LOSS_step", "rmse", "word_error", "val_nll"}) {
    INFO(name);
    CHECK(is_larger_better(name) == false);
  }
  for (const char* name : {"", "accumulated", "lossless", "reward", "f1_loss", "accuracy_error", "map", "lr-Adam", "neg_loss",
                           "val_loss_ratio", "accuracy_gap", "loss/reduction", "negative_nll"}) {
    INFO(name);
    CHECK_FALSE(is_larger_better(name).has_value());
  }
}

TEST_CASE("a mode that contradicts the metric's name is doubted, and says what may be meant") {
  CHECK(warning_of_mode("EarlyStopping", "val_acc", false) ==
        "EarlyStopping: mode is min, but for a metric called 'val_acc' the larger value is usually better. Should it be "
        "mode: max?");
  CHECK_THAT(warning_of_mode("ModelCheckpoint", "val_loss", true),
             Catch::StartsWith("ModelCheckpoint: mode is max") && Catch::EndsWith("mode: min?"));
  CHECK(warning_of_mode("EarlyStopping", "val_acc", true).empty());
  CHECK_THAT(warning_of_mode("ModelCheckpoint", "step", false), Catch::Contains("Should it be mode: max?"));
  CHECK(warning_of_mode("ModelCheckpoint", "epoch", true).empty());
  CHECK(warning_of_mode("ModelCheckpoint", "train_step", false).empty());
  CHECK(warning_of_mode("EarlyStopping", "val_loss", false).empty());
  CHECK(warning_of_mode("EarlyStopping", "reward", false).empty());
}

TEST_CASE("a monitor is doubted when the sanity check shows that its name is a slip") {
  CHECK(warning_of_monitor("EarlyStopping", "val_los", {"val_acc", "val_loss"}) ==
        "EarlyStopping monitors 'val_los', which validation did not log before training. Did you mean 'val_loss'? It logged: "
        "'val_acc', 'val_loss'.");
  CHECK(warning_of_monitor("EarlyStopping", "val_perplexity", {"val_acc"}) ==
        "EarlyStopping monitors 'val_perplexity', which validation did not log before training. It logged: 'val_acc'.");
  CHECK(warning_of_monitor("EarlyStopping", "val_loss", {"val_loss"}).empty());
  CHECK(warning_of_monitor("EarlyStopping", "train_accuracy", {"val_loss"}).empty());  // training will log it
  CHECK(warning_of_monitor("EarlyStopping", "val_loss", {}).empty());  // logged from the first epoch on, perhaps
}

TEST_CASE("asking a map of metrics for one that is not there names those that are") {
  const MetricMap metrics{{"train_loss", 1}, {"val_loss", 2}};
  CHECK(metrics.at("val_loss") == 2);
  CHECK_THROWS_AS(metrics.at("val_los"), MisuseError);
  CHECK_THROWS_WITH(metrics.at("val_los"),
                    "There is no metric 'val_los'. Did you mean 'val_loss'? There are: 'train_loss', 'val_loss'.");
  CHECK_THROWS_WITH(MetricMap().at("val_loss"), "There is no metric 'val_loss'. There are: none.");
}

TEST_CASE("a row of metrics as one line of JSON") {
  MetricRow row{.stage = Stage::kValidate, .epoch = 2, .step = 9, .epoch_end = true, .values = {{"val_loss", 0.1}}};
  CHECK(to_json(row) == R"({"epoch":2,"step":9,"stage":"validate","epoch_end":true,"values":{"val_loss":0.1}})");
  row.evaluation_batch = 3;
  CHECK(to_json(row) ==
        R"({"epoch":2,"step":9,"evaluation_batch":3,"stage":"validate","epoch_end":true,"values":{"val_loss":0.1}})");
  row.evaluation_batch.reset();
  row.values.clear();
  CHECK(to_json(row, {{{"a", 1.5}}, {}}) ==
        R"({"epoch":2,"step":9,"stage":"validate","epoch_end":true,"values":{},"ranks":[{"a":1.5},{}]})");
}

TEST_CASE("JSON of metrics holds every bit, null for what is not finite, and any name") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(to_json(MetricMap{{"a", infinity}, {"b", -infinity}, {"c", std::nan("")}, {"third", 1.0 / 3}}) ==
        R"({"a":null,"b":null,"c":null,"third":0.3333333333333333})");
  CHECK(to_json(MetricMap{{"a\"b\n", 1}, {"\xff", 1}}) == "{\"a\\\"b\\n\":1.0,\"\xef\xbf\xbd\":1.0}");
}
