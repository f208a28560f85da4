#include <catch2/catch.hpp>

#include "levin/callbacks/model_checkpoint_options.h"
#include "levin/core/error.h"
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
  CHECK(options.train_time_interval == "00:01:00:00");
  CHECK_FALSE(options.every_n_epochs.has_value());
  CHECK_NOTHROW(options.check());
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
  CHECK_THROWS_AS(levin::SaveLast("copy"), levin::ConfigError);
}

TEST_CASE("ModelCheckpoint refuses options that contradict each other") {
  const auto refused = [](ModelCheckpointOptions options, const char* text) {
    CHECK_THROWS_WITH(options.check(), Catch::Contains(text));
  };
  refused({.save_top_k = -2}, "save_top_k");
  refused({.save_top_k = 2}, "monitor");
  refused({.mode = "low"}, "'low'");
  refused({.every_n_train_steps = 5, .every_n_epochs = 1}, "exclude each other");
  refused({.every_n_train_steps = 5, .train_time_interval = "00:00:10:00"}, "exclude each other");
  refused({.train_time_interval = "10 minutes"}, "'10 minutes'");
  refused({.every_n_train_steps = -1}, "below 0");
  CHECK_NOTHROW(ModelCheckpointOptions{.every_n_train_steps = 5, .every_n_epochs = 0}.check());
  CHECK_NOTHROW(ModelCheckpointOptions{.save_top_k = -1}.check());
}
