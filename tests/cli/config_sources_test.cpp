#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/cli/config_merge.h"
#include "levin/cli/help_text.h"
#include "levin/cli/load_config.h"
#include "levin/cli/references.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Value;
using levin::cli::CommandLine;
using levin::cli::ConfigFile;
using levin::cli::ConfigSource;
using levin::cli::environment_sources;
using levin::cli::Override;
using levin::cli::RunConfig;

namespace {

Value yaml(const std::string& text) { return levin::cli::read_yaml(levin::cli::SourceText("run.yaml", text)); }

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const levin::ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// Files in a folder of their own.
class Files {
 public:
  Files() { levin::test::register_fake_classes(); }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  RunConfig load(const std::string& name, std::vector<Override> overrides = {}, const std::string& command = "fit") const {
    CommandLine line;
    line.command = command;
    line.sources.push_back(ConfigFile{path(name)});
    for (Override& each : overrides) line.sources.push_back(std::move(each));
    return levin::cli::load_config(line);
  }
  std::string error(const std::string& name, std::vector<Override> overrides = {}) const {
    return error_of([&] { load(name, std::move(overrides)); });
  }

 private:
  levin::test::TemporaryFolder folder_;
};

Value resolved(const std::string& text) {
  const Value config = yaml(text);
  return levin::cli::interpolated(config, config);
}

/// A variable of this process's environment, until the end of a test.
class Variable {
 public:
  Variable(const char* name, const char* text) : name_(name) { setenv(name, text, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("a file includes others, which stand beside it, and wins over them") {
  Files files;
  files.write("base/trainer.yaml", "trainer: {max_epochs: 3, max_steps: 7}\n");
  files.write("base/all.yaml", "include: trainer.yaml\ntrainer: {max_steps: 8}\nseed_everything: 4\n");
  files.write("other.yaml", "seed_everything: 5\n");
  files.write("run.yaml", "include: [base/all.yaml, other.yaml]\ntrainer: {max_epochs: 2}\n");
  const RunConfig config = files.load("run.yaml");
  CHECK(config.trainer.max_epochs == 2);
  CHECK(config.trainer.max_steps == 8);
  CHECK(config.seed_everything.value == 5);
}

TEST_CASE("files that include one another in a circle, or that are missing, are errors") {
  Files files;
  files.write("a.yaml", "include: b.yaml\n");
  files.write("b.yaml", "include: a.yaml\n");
  files.write("missing.yaml", "trainer:\n  max_epochs: 1\ninclude: [none.yaml]\n");
  files.write("wrong.yaml", "include: {a: 1}\n");
  CHECK_THAT(files.error("a.yaml"), Contains("includes itself: "));
  CHECK_THAT(files.error("missing.yaml"), Contains("missing.yaml:3:11: there is no file 'none.yaml'"));
  CHECK_THAT(files.error("wrong.yaml"), Contains("wrong.yaml:1:10: expected the name of a file"));
}

TEST_CASE("a section may be a file of its own, in YAML and on the command line") {
  Files files;
  files.write("parts/model.yaml", "class_path: FakeNet\ninit_args: {hidden: 9}\n");
  files.write("deep.yaml", "{class_path: FakeDeepNet, init_args: {depth: 4}}\n");
  files.write("run.yaml", "model: parts/model.yaml\n");
  CHECK(files.load("run.yaml").model.init_args().at("hidden") == Value(9));
  CHECK(files.load("run.yaml", {{"model.hidden", "10"}}).model.init_args().at("hidden") == Value(10));
  const RunConfig config = files.load("run.yaml", {{"model", files.path("deep.yaml")}});
  CHECK(config.model.class_path() == Value("FakeDeepNet"));
  CHECK(config.model.init_args().at("depth") == Value(4));
  CHECK_THAT(files.error("run.yaml", {{"model", "gone.yaml"}}),
             Contains("command line: --model: there is no file 'gone.yaml'"));
}

TEST_CASE("an error in an included file or a section's file stands there") {
  Files files;
  files.write("base.yaml", "trainer: {max_epoch: 3}\n");
  files.write("model.yaml", "class_path: FakeNet\ninit_args: {hidden: zero}\n");
  files.write("run.yaml", "include: base.yaml\nmodel: model.yaml\n");
  const std::string error = files.error("run.yaml");
  CHECK_THAT(error, Contains("base.yaml:1:11"));
  CHECK_THAT(error, Contains("model.yaml:2:21"));
}

TEST_CASE("sections for a command win over those for all, and are left out for others") {
  Files files;
  files.write(
      "run.yaml",
      "trainer: {max_epochs: 3}\nfit: {trainer: {max_epochs: 4}, seed_everything: 8}\ntest: {trainer: {max_epochs: 5}}\n");
  CHECK(files.load("run.yaml").trainer.max_epochs == 4);
  CHECK(files.load("run.yaml").seed_everything.value == 8);
  CHECK(files.load("run.yaml", {}, "test").trainer.max_epochs == 5);
  CHECK(files.load("run.yaml", {}, "predict").trainer.max_epochs == 3);
  files.write("wrong.yaml", "trainer: {max_epochs: 3}\ntest: {trianer: {max_epochs: 5}}\n");
  CHECK_THAT(files.error("wrong.yaml"), Contains("wrong.yaml:2:8: test: unknown key 'trianer'; did you mean 'trainer'?"));
}

TEST_CASE("variables of the environment are overrides, those for one command last") {
  const std::map<std::string, std::string> variables = {
      {"LEVIN_DEFAULT_CONFIG", "mine.yaml"},    {"LEVIN_CONFIG", "run.yaml"},
      {"LEVIN_TRAINER__MAX_EPOCHS", "5"},       {"LEVIN_FIT__TRAINER__MAX_EPOCHS", "6"},
      {"LEVIN_TEST__TRAINER__MAX_EPOCHS", "7"}, {"LEVIN_MODEL__INIT_ARGS__hiddenSize", "8"},
      {"LEVIN_SEED_EVERYTHING", "9"},           {"LEVIN_RUN_TOKEN", "abc"}};
  const std::vector<ConfigSource> expected = {
      ConfigFile{"mine.yaml"},
      ConfigFile{"run.yaml"},
      Override{"model.init_args.hiddenSize", "8", false, "LEVIN_MODEL__INIT_ARGS__hiddenSize"},
      Override{"seed_everything", "9", false, "LEVIN_SEED_EVERYTHING"},
      Override{"trainer.max_epochs", "5", false, "LEVIN_TRAINER__MAX_EPOCHS"},
      Override{"trainer.max_epochs", "6", false, "LEVIN_FIT__TRAINER__MAX_EPOCHS"}};
  CHECK(environment_sources("fit", variables) == expected);
}

TEST_CASE("a variable that is meant as an option and is none is an error that names it") {
  CHECK(error_of([] {
          environment_sources("fit", {{"LEVIN_TRAINR__MAX_EPOCHS", "5"}});
        }) == "environment: LEVIN_TRAINR__MAX_EPOCHS: there is no section 'trainr'; did you mean 'trainer'?");
  Files files;
  files.write("run.yaml", "trainer: {max_epochs: 3}\n");
  CHECK_THAT(files.error("run.yaml", {{"trainer.max_epoch", "5", false, "LEVIN_TRAINER__MAX_EPOCH"}}),
             Contains("environment: LEVIN_TRAINER__MAX_EPOCH"));
}

TEST_CASE("levin.yaml of the working folder is read first, if it is there") {
  Files files;
  files.write("levin.yaml", "trainer: {max_epochs: 3}\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(files.path("levin.yaml")).parent_path());
  const std::vector<ConfigSource> found = environment_sources("fit", {});
  const std::vector<ConfigSource> none = environment_sources("fit", {{"LEVIN_DEFAULT_CONFIG", ""}});
  std::filesystem::current_path(before);
  CHECK(found == std::vector<ConfigSource>{ConfigFile{"levin.yaml"}});
  CHECK(none.empty());
}

TEST_CASE("a text refers to other values, given or default") {
  levin::test::register_fake_classes();
  const Value config = resolved(
      "model: {class_path: FakeNet, init_args: {hidden: '${data.batch_size}', lr: '${trainer.gradient_clip_val}'}}\n"
      "data: FakeTable\n"
      "trainer: {gradient_clip_val: 0.5, callbacks: [{class_path: FakeStopper, init_args: {patience: '${seed_everything}'}}],\n"
      "          default_root_dir: 'runs/${model.hidden}/${model.class_path}-${trainer.gradient_clip_val}'}\n"
      "seed_everything: 7\n");
  CHECK(config.at("model").at("init_args") == yaml("{hidden: 32, lr: 0.5}"));
  CHECK(config.at("trainer").at("callbacks").as_list()[0].at("init_args").at("patience") == Value(7));
  CHECK(config.at("trainer").at("default_root_dir") == Value("runs/32/FakeNet-0.5"));
}

TEST_CASE("a whole list or map is taken where the text is nothing else") {
  const Value config = resolved("a: [1, {b: 2}]\nc: '${a}'\nd: '${a.1.b}'\ne: '${a.1}'\n");
  CHECK(config.at("c") == yaml("[1, {b: 2}]"));
  CHECK(config.at("d") == Value(2));
  CHECK(config.at("e") == yaml("{b: 2}"));
}

TEST_CASE("the environment gives values, read as YAML, or their default") {
  const Variable batch("LEVIN_TEST_BATCH", "64"), name("LEVIN_TEST_NAME", "a b");
  CHECK(resolved("{a: '${env:LEVIN_TEST_BATCH}', b: '${oc.env:LEVIN_TEST_NAME}!', c: '${env:LEVIN_TEST_NONE,0.5}', d: "
                 "'${env:LEVIN_TEST_NONE,}'}") == yaml("{a: 64, b: 'a b!', c: 0.5, d: null}"));
}

TEST_CASE("a dollar and a brace that are meant have a backslash, and a dollar alone is one") {
  CHECK(resolved("{a: '\\${b}', b: 1, c: 'x \\${b} ${b} $b {b}'}") == yaml("{a: '${b}', b: 1, c: 'x ${b} 1 $b {b}'}"));
}

TEST_CASE("references that lead nowhere say where they stand") {
  levin::test::register_fake_classes();
  const auto error = [](const std::string& text) { return error_of([&] { resolved(text); }); };
  CHECK(error("trainer:\n  max_steps: ${trainer.max_epoch}\n") ==
        "run.yaml:2:14: there is no 'trainer.max_epoch' to take a value from; did you mean 'max_epochs'?");
  CHECK(error("a: ${env:LEVIN_TEST_NONE}") ==
        "run.yaml:1:4: the environment variable 'LEVIN_TEST_NONE' is not set; "
        "${env:LEVIN_TEST_NONE,DEFAULT} gives it a default");
  CHECK_THAT(error("a: ${b}\nb: x${c}\nc: ${a}\n"), Contains("refers to itself: "));
  CHECK_THAT(error("a: {b: '${a}'}"), Contains("refers to itself: a, a"));
  CHECK_THAT(error("a: ${b"), Contains("'${' has no '}' in '${b'"));
  CHECK_THAT(error("a: x${b}\nb: [1]\n"), Contains("'b' is list of 1 element, which cannot be put into a text"));
  CHECK_THAT(error("data: FakeTable\na: ${data.file}"), Contains("'data.file' is not given, and has no default"));
}

TEST_CASE("references that unfold without end are cut off") {
  std::string lists = "a0: [x, x, x, x, x, x, x, x, x, x]\n", texts = "a0: " + std::string(1000, 'x') + "\n";
  for (int level = 1; level < 6; ++level) {
    const std::string below = "${a" + std::to_string(level - 1) + "}", name = "a" + std::to_string(level);
    lists += name + ": [";
    texts += name + ": ";
    for (int copy = 0; copy < 10; ++copy) {
      lists += "'" + below + "', ";
      texts += below;
    }
    lists += "]\n";
    texts += "\n";
  }
  CHECK_THAT(error_of([&] { resolved(lists); }), Contains("more than 200000 values"));
  CHECK_THAT(error_of([&] { resolved(texts); }), Contains("more than 16777216 bytes"));
}

TEST_CASE("references to references nest as deep as if they had been unfolded one by one") {
  const auto nested = [](int levels) {
    std::string text = "a0: x\n";
    for (int level = 1; level <= levels; ++level) {
      text += "a" + std::to_string(level) + ": ['${a" + std::to_string(level - 1) + "}']\n";
    }
    return text;
  };
  CHECK_NOTHROW(resolved(nested(49)));
  CHECK_THAT(error_of([&] { resolved(nested(120)); }), Contains("deeper than 100 levels"));
}

TEST_CASE("a wrong value that came by reference is told where it is used") {
  Files files;
  files.write("run.yaml",
              "model: {class_path: FakeNet, init_args: {hidden: '${trainer.max_epochs}'}}\ntrainer: {max_epochs: 0}\n");
  CHECK_THAT(files.error("run.yaml"), Contains("run.yaml:1:50: model: hidden: must be at least 1, got int 0"));
}

TEST_CASE("an option that is linked to another one takes its value, given or default, where it is not given itself") {
  Files files;
  files.write("table.csv", "1\n");
  const auto inputs = [&](const std::string& text) {
    files.write("run.yaml", text);
    return files.load("run.yaml").model.init_args().at("inputs");
  };
  const std::string data = "data: {class_path: FakeTable, init_args: {file: table.csv, columns: 9}}\n";
  CHECK(inputs("model: FakeNet\n" + data) == Value(9));
  CHECK(inputs("model: FakeNet\ndata: {class_path: FakeTable, init_args: {file: table.csv}}\n") == Value(6));
  CHECK(inputs("model: {class_path: FakeNet, init_args: {inputs: 3}}\n" + data) == Value(3));
  CHECK(inputs("model: FakeNet\n") == Value(4));
  CHECK(levin::cli::topic_help("FakeNet").find("default 4, not given: that of data.columns") != std::string::npos);
}
