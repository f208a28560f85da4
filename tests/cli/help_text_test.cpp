#include "levin/cli/config/help_text.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "cli/fake_classes.h"
#include "levin/cli/config/config_schema.h"
#include "levin/cli/config/source_text.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/config/value_json.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

const bool kRegistered = (register_fake_classes(), true);

}  // namespace

TEST_CASE("help on a class tells each option's type, default, range and meaning") {
  REQUIRE(kRegistered);
  const std::string help = topic_help("FakeDeepNet");
  CHECK_THAT(help, Catch::StartsWith("FakeDeepNet (model): Many layers\n"));
  CHECK_THAT(help, Catch::Contains("  depth  (int, default 3, at least 1, at most 50)\n      Number of layers\n"));
  CHECK_THAT(topic_help("some.where.FakeTable"), Catch::Contains("file  (path, required)"));
  CHECK_THAT(topic_help("FakeStopper"), Catch::Contains("mode  (string, default min, one of min, max)"));
}

TEST_CASE("help on a kind, a section or a key") {
  CHECK_THAT(topic_help("callbacks"), Catch::Contains("FakeStopper") && Catch::Contains("Stops early"));
  CHECK_THAT(topic_help("trainer"), Catch::Contains("max_epochs") && Catch::Contains("accumulate_grad_batches"));
  CHECK_THAT(topic_help("trainer.max_epochs"), Catch::Contains("max_epochs  (int or null"));
  CHECK_THAT(topic_help("max_epochs"), Catch::Contains("max_epochs  (int or null"));
  CHECK_THAT(topic_help("trainer.callbacks"), Catch::Contains("FakeStopper"));
  CHECK_THAT(topic_help("model"), Catch::Contains("FakeNet") && Catch::Contains("FakeDeepNet"));
  CHECK_THAT(topic_help("seed_everything"), Catch::Contains("default 0"));
  CHECK_THAT(topic_help("lr_scheduler"), Catch::Contains("FakeStep") && Catch::Contains("Next to class_path and init_args:") &&
                                             Catch::Contains("interval  (") && Catch::Contains("frequency  (int, default 1") &&
                                             Catch::Contains("monitor  ("));
  CHECK_THAT(topic_help("optimizer"), Catch::Contains("FakeSgd") && Catch::Contains("Next to class_path and init_args:") &&
                                          Catch::Contains("no_decay  (list of string, default []") &&
                                          Catch::Contains("groups  (list of map of parameters and options"));
}

TEST_CASE("help on something unknown says what was meant") {
  CHECK_THROWS_WITH(topic_help("FakeNte"), Catch::Contains("no help on 'FakeNte'; did you mean 'FakeNet'?"));
  CHECK_THROWS_WITH(topic_help("trainer.max_epoch"), Catch::Contains("did you mean 'trainer.max_epochs'?"));
}

TEST_CASE("comments of a configuration are the help of its options, inside classes too") {
  const Value config = read_yaml(SourceText("run.yaml",
                                            "{trainer: {max_epochs: 1, callbacks: [{class_path: FakeStopper, init_args: "
                                            "{mode: min}}]}, model: {class_path: FakeNet, init_args: {lr: 1.0}}}"));
  const auto comment = config_comments(config);
  CHECK_THAT(comment({"trainer", "max_epochs"}), Catch::Contains("epochs"));
  CHECK(comment({"trainer", "callbacks", "0", "init_args", "mode"}) == "Better is (one of min, max)");
  CHECK(comment({"model", "init_args", "lr"}) == "Learning rate (at least 0)");
  CHECK(comment({"model"}) == "The Module to run");
  CHECK(comment({"model", "class_path"}) == "One hidden layer");
}

TEST_CASE("the JSON Schema describes sections, classes and their arguments") {
  const Value schema = config_schema();
  CHECK(schema.at("$schema") == Value("https://json-schema.org/draft/2020-12/schema"));
  CHECK(schema.at("additionalProperties") == Value(false));
  CHECK(schema.at("properties").at("trainer").at("$ref") == Value("#/$defs/sections/properties/trainer"));
  const Value& trainer = schema.at("$defs").at("sections").at("properties").at("trainer").at("anyOf").as_list().front();
  const Value& batches = trainer.at("properties").at("accumulate_grad_batches");
  CHECK(batches.at("anyOf").as_list().at(0).at("minimum") == Value(1));
  CHECK(batches.at("anyOf").as_list().at(1).at("$ref") == Value("#/$defs/reference"));
  const Value& model = schema.at("$defs").at("model");
  CHECK(model.at("anyOf").as_list().at(1).at("additionalProperties") == Value(false));
  const auto& rules = model.at("anyOf").as_list().at(1).at("allOf").as_list();
  const Value pattern("^(.*[.:])?(FakeDeepNet)$");
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const Value& each) {
    return each.at("if").at("properties").at("class_path").at("pattern") == pattern;
  });
  REQUIRE(rule != rules.end());
  const Value& arguments = rule->at("then").at("properties").at("init_args").at("anyOf").as_list().at(0);
  CHECK(arguments.at("properties").at("depth").at("anyOf").as_list().at(0).at("maximum") == Value(50));
  CHECK_THAT(plain_json(schema), Catch::StartsWith("{\n  \"$schema\": "));
}
