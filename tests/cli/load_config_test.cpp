#include <catch2/catch.hpp>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/cli/config/command_line.h"
#include "levin/cli/config/config_text.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/interpolation.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/override.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/source_text.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/config/to_yaml.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

/// A folder with a table and a run.yaml.
class Fixture {
 public:
  explicit Fixture(const std::string& yaml) {
    register_fake_classes();
    std::ofstream(folder_ / "table.csv") << "1\n";
    write("run.yaml", yaml);
  }
  void write(const std::string& name, const std::string& yaml) { std::ofstream(folder_ / name) << yaml; }
  std::string path(const std::string& name) const { return folder_ / name; }
  RunConfig load(std::vector<Override> overrides = {}, const std::vector<std::string>& files = {"run.yaml"}) const {
    CommandLine line;
    for (const std::string& file : files) line.sources.push_back(ConfigFile{path(file)});
    for (Override& each : overrides) line.sources.push_back(std::move(each));
    return load_config(line);
  }
  std::string error(std::vector<Override> overrides = {}) const {
    return levin::test::error_of<ConfigError>([&] { load(std::move(overrides)); });
  }

 private:
  TemporaryFolder folder_;
};

const char* const kRun =
    "seed_everything: 7\n"
    "trainer:\n"
    "  max_epochs: 5\n"
    "  callbacks:\n"
    "  - class_path: FakeStopper\n"
    "    init_args: {patience: 2}\n"
    "model: {class_path: some.where.FakeNet, init_args: {hidden: 64}}\n"
    "data: {class_path: FakeTable, init_args: {file: table.csv}}\n";

Value placed(Value value, int line) {
  value.set_mark(Mark{"run.yaml", line, 3});
  return value;
}

}  // namespace

TEST_CASE("a whole configuration is read, with overrides and several files") {
  Fixture fixture(kRun);
  fixture.write("more.yaml",
                "trainer: {max_steps: 9}\noptimizer: FakeSgd\nlr_scheduler: {class_path: FakeStep, interval: step}\n");
  const RunConfig config = fixture.load({{"model.lr", "0.5"}, {"trainer.callbacks.patience", "4"}}, {"run.yaml", "more.yaml"});
  CHECK(config.seed_everything.value == 7);
  CHECK(config.trainer.max_epochs == 5);
  CHECK(config.trainer.max_steps == 9);
  CHECK(config.model.init_args().at("lr") == Value(0.5));
  CHECK(config.model.init_args().at("hidden") == Value(64));
  CHECK(config.trainer.callbacks.at(0).init_args().at("patience") == Value(4));
  CHECK(config.optimizer.component.class_path() == Value("FakeSgd"));
  CHECK(config.lr_scheduler.settings.interval == Interval::kStep);
}

TEST_CASE("the complete configuration has every default and resolved paths, and repeats itself from anywhere") {
  Fixture fixture(kRun);
  const Value complete = write_options(fixture.load());
  CHECK(complete.at("data").at("init_args").at("file") == Value(fixture.path("table.csv")));
  CHECK(complete.at("data").at("init_args").at("batch_size") == Value(32));
  CHECK(complete.at("trainer").at("callbacks").as_list().at(0).at("init_args").at("monitor") == Value("val_loss"));
  CHECK(complete.at("trainer").contains("accumulate_grad_batches"));
  CHECK(complete.at("ckpt_path") == Value());

  const TemporaryFolder elsewhere;
  std::ofstream(elsewhere / "saved.yaml") << to_yaml(complete);
  CommandLine line;
  line.sources.push_back(ConfigFile{elsewhere / "saved.yaml"});
  CHECK(write_options(load_config(line)) == complete);
}

TEST_CASE("a configuration that is saved or printed and read again is the same, whatever texts it has") {
  const Fixture fixture("{}");
  const TemporaryFolder folder;
  ::setenv("LEVIN_TEST_SECRET", "secret", 1);
  std::vector<std::string> texts = {"${env:LEVIN_TEST_SECRET}", "\\${env:LEVIN_TEST_SECRET}", std::string(200, 'k'),
                                    std::string(5000, 'k')};
  for (const char* word :
       {"\\\\${a}", "${",         "$${model}", "\\",     "",       " ",      " a ",    "a ",         "no",       "Yes",
        "NULL",     "null",       "~",         "1",      "1.5",    "1e5",    "0x1f",   ".inf",       "-",        "- a",
        "a: b",     "a #b",       "#",         "\n",     "a\nb\n", "\t",     "'",      "\"",         "!tag",     "!!str",
        "&a",       "*a",         "%x",        "@",      "`",      "|",      ">",      "{}",         "[]",       "2020-01-01",
        "1:30",     "1_000",      "<<",        "=",      "...",    "---",    "? ",     ",",          "é",        "日本",
        "C:\\x",    "\x01\x1b\r", "\x7f",      "\u0085", "\u2028", "\ufeff", "\uffff", "\U0001F600", "\xff\xfe", "\xc0\x80"}) {
    texts.emplace_back(word);
  }
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Value stopper(Value::Map{{"class_path", "FakeStopper"}, {"init_args", Value(Value::Map{{"monitor", text}})}});
    const Value config(
        Value::Map{{"model", Value(Value::Map{{"class_path", "FakeNet"}})},
                   {"trainer", Value(Value::Map{{"callbacks", Value(Value::List{stopper, stopper})}})},
                   {"init_from", Value(Value::Map{{"path", fixture.path("table.csv")},
                                                  {"prefix", text},
                                                  {"rename", Value(Value::Map{{text, text}, {text + "2", "b"}})}})}});
    const Value complete = write_options(read_options<RunConfig>(config));
    CHECK(complete.at("init_from").at("rename").at(text) == Value(text));
    std::ofstream(folder / "printed.yaml") << printed_config(complete);
    for (const std::filesystem::path& file : {save_config(complete, folder / "saved"), folder / "printed.yaml"}) {
      CommandLine line;
      line.sources.push_back(ConfigFile{file});
      CHECK(write_options(load_config(line)) == complete);
      std::filesystem::remove(file);
    }
  }
}

TEST_CASE("seed and checkpoint take their special words") {
  Fixture fixture(kRun);
  CHECK(fixture.load({{"seed_everything", "true"}}).seed_everything.value == 0);
  CHECK(fixture.load({{"seed_everything", "false"}}).seed_everything.value == std::nullopt);
  CHECK(fixture.load({{"seed_everything", "null"}}).seed_everything.value == std::nullopt);
  CHECK(fixture.load({{"ckpt_path", "best"}}).ckpt_path.value == "best");
  CHECK(fixture.load({{"ckpt_path", "null"}}).ckpt_path.value == std::nullopt);
  CHECK(fixture.load({{"ckpt_path", fixture.path("table.csv")}}).ckpt_path.value == fixture.path("table.csv"));
  const std::string folder = fixture.path(".");
  const std::string whole = std::filesystem::path(folder).lexically_normal().string();
  CHECK(fixture.load({{"ckpt_path", folder + ":best"}}).ckpt_path.value == whole + ":best");
  CHECK(fixture.load({{"ckpt_path", folder}}).ckpt_path.value == whole);
  CHECK(fixture.load({{"init_from", fixture.path("table.csv")}}).init_from.value->path == fixture.path("table.csv"));
  const auto init_from =
      fixture.load({{"init_from", "{path: " + fixture.path("table.csv") + ", strict: false, prefix: a., rename: {b: c}}"}})
          .init_from;
  CHECK(init_from.value->path == fixture.path("table.csv"));
  CHECK_FALSE(init_from.value->options.strict);
  CHECK(init_from.value->options.prefix == "a.");
  CHECK(init_from.value->options.rename.at("b") == "c");
  CHECK_FALSE(fixture.load({{"init_from", "null"}}).init_from.value.has_value());
}

TEST_CASE("parameter groups are read, written and read again") {
  Fixture fixture(
      std::string(kRun) +
      "optimizer: {class_path: FakeSgd, groups: [{parameters: [bias, norm], lr: 0.1}, {parameters: ['^head'], hidden: 2}]}\n");
  const RunConfig config = fixture.load();
  REQUIRE(config.optimizer.settings.groups.size() == 2);
  CHECK(config.optimizer.settings.groups[0].parameters.at(1).text() == "norm");
  CHECK(config.optimizer.settings.groups[0].options == Value(Value::Map{{"lr", Value(0.1)}}));
  const Value complete = write_options(config);
  CHECK(complete.at("optimizer").at("init_args").at("lr") == Value(1e-3));
  CHECK(write_options(read_options<RunConfig>(complete)) == complete);
}

TEST_CASE("val_check_interval is a number of batches, a share, or a time") {
  const auto read = [](const std::string& text) {
    return *Fixture("trainer:\n  val_check_interval: " + text + "\n").load().trainer.val_check_interval;
  };
  CHECK(read("3").limit() == Limit(3));
  CHECK(read("0.5").limit() == Limit(0.5));
  CHECK(read("01:02:00:03").time() == std::chrono::hours(26) + std::chrono::seconds(3));
  CHECK_THAT(Fixture("trainer:\n  val_check_interval: 2 hours\n").error(),
             Catch::Contains("run.yaml:2:23: ") && Catch::Contains("'2 hours', which is not a duration"));
}

TEST_CASE("an option that is linked to another one takes its value, given or default, where it is not given itself") {
  const auto inputs = [](const std::string& text) { return Fixture(text).load().model.init_args().at("inputs"); };
  const std::string data = "data: {class_path: FakeTable, init_args: {file: table.csv, columns: 9}}\n";
  CHECK(inputs("model: FakeNet\n" + data) == Value(9));
  CHECK(inputs("model: FakeNet\ndata: {class_path: FakeTable, init_args: {file: table.csv}}\n") == Value(6));
  CHECK(inputs("model: {class_path: FakeNet, init_args: {inputs: 3}}\n" + data) == Value(3));
  CHECK(inputs("model: {class_path: FakeNet, init_args: {inputs: null}}\n" + data) == Value(9));
  CHECK(inputs("model: FakeNet\n") == Value(4));
  CHECK(topic_help("FakeNet").find("default 4, not given: that of data.columns") != std::string::npos);
}

TEST_CASE("a reference stands for a whole list or map where the text is nothing else, and \\${ for the characters") {
  const auto resolved = [](const std::string& text) {
    const Value config = read_yaml(SourceText("run.yaml", text));
    return interpolated(config, config);
  };
  CHECK(resolved("{a: [1, {b: 2}], c: '${a}', d: '${a.1.b}', e: '${a.1}'}") ==
        resolved("{a: [1, {b: 2}], c: [1, {b: 2}], d: 2, e: {b: 2}}"));
  CHECK(resolved("{a: '\\${b}', b: 1, c: 'x \\${b} ${b} $b {b}'}") == resolved("{a: '\\${b}', b: 1, c: 'x \\${b} 1 $b {b}'}"));
  CHECK(resolved("{a: '\\${b}'}").at("a") == Value("${b}"));
  std::string texts = "a0: " + std::string(1000, 'x') + "\n";
  for (int level = 1; level < 6; ++level) {
    texts += "a" + std::to_string(level) + ": ";
    for (int copy = 0; copy < 10; ++copy) texts += "${a" + std::to_string(level - 1) + "}";
    texts += "\n";
  }
  CHECK_THROWS_WITH(resolved(texts), Catch::Contains("more than 16777216 bytes"));
}

TEST_CASE("an option that model and data share with other values is told with both places") {
  const Value model(
      Value::Map{{"num_classes", placed(10, 4)}, {"batch_size", Value(32)}, {"lr", placed(0.1, 5)}, {"scale", placed(1, 6)}});
  const Value data(Value::Map{
      {"num_classes", placed(3, 8)}, {"batch_size", placed(64, 9)}, {"path", placed("x", 10)}, {"scale", placed(1.0, 11)}});
  CHECK(different_shared_options(model, data) ==
        std::vector<std::string>{
            "model and data both have an option num_classes, with different values: int 10 (run.yaml:4:3) for the model, int 3 "
            "(run.yaml:8:3) for the data. For one value in both, write ${data.num_classes} for the model's.",
            "model and data both have an option batch_size, with different values: int 32 (the default) for the model, int 64 "
            "(run.yaml:9:3) for the data. For one value in both, write ${data.batch_size} for the model's."});
}

TEST_CASE("defaults that differ, and a model or data without options, are nothing to tell") {
  const Value model(Value::Map{{"batch_size", Value(32)}}), data(Value::Map{{"batch_size", Value(64)}});
  CHECK(different_shared_options(model, data).empty());
  CHECK(different_shared_options({}, data).empty());
  CHECK(different_shared_options(model, {}).empty());
}
