#include <catch2/catch.hpp>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/base/error.h"
#include "levin/core/options/options.h"

using levin::ModelCheckpointOptions;
using levin::Value;

TEST_CASE("ModelCheckpoint's options are read and written as in YAML") {
  Value map(Value::Map{});
  map["monitor"] = "val_loss";
  map["save_last"] = "link";
  map["train_time_interval"] = "00:01:00:00";
  map["every_n_epochs"] = Value();
  const auto options = levin::read_options<ModelCheckpointOptions>(map);
  CHECK(options.monitor == "val_loss");
  CHECK(options.save_last.link());
  CHECK(options.train_time_interval == std::chrono::hours(1));
  CHECK_FALSE(options.every_n_epochs.has_value());
  const Value written = levin::write_options(options);
  CHECK(written.at("save_last") == Value("link"));
  CHECK(levin::write_options(levin::read_options<ModelCheckpointOptions>(written)) == written);
}

TEST_CASE("save_last takes true, false, link and null") {
  const auto read = [](Value value) {
    Value map(Value::Map{});
    map["save_last"] = std::move(value);
    return levin::read_options<ModelCheckpointOptions>(map).save_last;
  };
  CHECK(read(true).enabled());
  CHECK_FALSE(read(true).link());
  CHECK_FALSE(read(false).enabled());
  CHECK_FALSE(read(Value()).enabled());
  CHECK(read("link").link());
  CHECK_THROWS_AS(read("copy"), levin::ConfigError);
  CHECK_THROWS_AS(read(1), levin::ConfigError);
}
