#include "levin/core/protocol/metric_row.h"

#include <catch2/catch.hpp>
#include <limits>

using levin::MetricMap;
using levin::MetricRow;
using levin::to_json;

TEST_CASE("a row of metrics as one line of JSON") {
  MetricRow row{.stage = levin::Stage::kValidate, .epoch = 2, .step = 9, .epoch_end = true, .values = {{"val_loss", 0.1}}};
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
  CHECK(to_json(MetricMap{}) == "{}");
  CHECK(to_json(MetricMap{{"third", 1.0 / 3}}) == R"({"third":0.3333333333333333})");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(to_json(MetricMap{{"a", infinity}, {"b", -infinity}, {"c", std::numeric_limits<double>::quiet_NaN()}}) ==
        R"({"a":null,"b":null,"c":null})");
  CHECK(to_json(MetricMap{{"a\"b\n", 1}}) == R"({"a\"b\n":1.0})");
  CHECK(to_json(MetricMap{{"\xff", 1}}) == "{\"\xef\xbf\xbd\":1.0}");
}
