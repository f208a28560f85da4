#include "levin/cli/shared_options.h"

#include <catch2/catch.hpp>

namespace levin::cli {
namespace {

Value at(Value value, int line) {
  value.set_mark(Mark{"run.yaml", line, 3});
  return value;
}

}  // namespace

TEST_CASE("an option that model and data share with other values is told with both places") {
  const Value model(Value::Map{{"num_classes", at(10, 4)}, {"batch_size", Value(32)}, {"lr", at(0.1, 5)}, {"scale", at(1, 6)}});
  const Value data(
      Value::Map{{"num_classes", at(3, 8)}, {"batch_size", at(64, 9)}, {"path", at("x", 10)}, {"scale", at(1.0, 11)}});
  CHECK(different_shared_options(model, data) ==
        std::vector<std::string>{
            "model and data both have an option num_classes, each its own: int 10 (run.yaml:4:3) for the model, int 3 "
            "(run.yaml:8:3) for the data. For one value in both, write ${data.num_classes} for the model's.",
            "model and data both have an option batch_size, each its own: int 32 (the default) for the model, int 64 "
            "(run.yaml:9:3) for the data. For one value in both, write ${data.batch_size} for the model's."});
}

TEST_CASE("defaults that differ, and a model or data without options, are nothing to tell") {
  const Value model(Value::Map{{"batch_size", Value(32)}}), data(Value::Map{{"batch_size", Value(64)}});
  CHECK(different_shared_options(model, data).empty());
  CHECK(different_shared_options({}, data).empty());
  CHECK(different_shared_options(model, {}).empty());
}

}  // namespace levin::cli
