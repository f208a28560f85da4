// What a command line is read as, and what its overrides make of a configuration.
#include "levin/cli/config/command_line.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/config_merge.h"
#include "levin/cli/config/environment_sources.h"
#include "levin/cli/config/override.h"
#include "levin/cli/config/shell_words.h"
#include "levin/cli/config/source_text.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/error.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  return levin::cli::parse_command_line(arguments, subcommands());
}

std::string sources_text(const CommandLine& line) {
  std::string text;
  for (const auto& source : line.sources) {
    if (const auto* file = std::get_if<ConfigFile>(&source)) {
      text += "file " + file->path + "\n";
    } else {
      const auto& given = std::get<Override>(source);
      text += given.key + (given.append ? " += " : " = ") + given.text + "\n";
    }
  }
  return text;
}

std::string error_of(const std::vector<std::string>& arguments) {
  return levin::test::error_of<ConfigError>([&] { parse_command_line(arguments); });
}

Value yaml(const std::string& text) {
  register_fake_classes();
  return read_yaml(SourceText("run.yaml", text));
}

Value overridden(const std::string& text, const std::vector<Override>& overrides) {
  Value config = yaml(text);
  for (const Override& each : overrides) apply_override(config, each);
  return config;
}

}  // namespace

TEST_CASE("configuration files and overrides keep their order, in every spelling") {
  const CommandLine line = parse_command_line({"fit", "--trainer.max_epochs=5", "--config", "a.yaml", "-c", "b.yaml",
                                               "--config=c.yaml", "--trainer.max_steps", "-1", "--model", "Digits",
                                               "--trainer.callbacks+=EarlyStopping", "--seed_everything=", "--model.text=a=b"});
  CHECK(line.command == "fit");
  CHECK(sources_text(line) ==
        "trainer.max_epochs = 5\nfile a.yaml\nfile b.yaml\nfile c.yaml\ntrainer.max_steps = -1\nmodel = Digits\n"
        "trainer.callbacks += EarlyStopping\nseed_everything = \nmodel.text = a=b\n");
}

TEST_CASE("an option of a command's own is not taken for a section of that name") {
  CHECK(sources_text(parse_command_line({"test", "--key", "generator"})) == "key = generator\n");
  CHECK(sources_text(parse_command_line({"inspect", "gan.pt", "--key", "generator"})).empty());
  CHECK(sources_text(parse_command_line({"export", "gan.pt", "--to=safetensors", "--key=generator"})).empty());
}

TEST_CASE("the command may stand behind its options") {
  const CommandLine line = parse_command_line({"--config", "a.yaml", "--plugin", "libmine.so", "test", "--plugin=other.so"});
  CHECK(line.command == "test");
  CHECK(sources_text(line) == "file a.yaml\n");
  CHECK(line.plugins == std::vector<std::string>{"libmine.so", "other.so"});
}

TEST_CASE("help is asked for as a whole, for a command, a class or a key") {
  CHECK_THAT(parse_command_line({"--version"}).output,
             Catch::Matchers::StartsWith("levin " LEVIN_TEST_VERSION ", LibTorch ") && Catch::Matchers::EndsWith("\n"));
  CHECK(parse_command_line({"-V"}).output == parse_command_line({"--version"}).output);
  CHECK(parse_command_line({"help"}).output == parse_command_line({"--help"}).output);
  CHECK(parse_command_line({"help", "fit"}).output == parse_command_line({"fit", "--help"}).output);
  CHECK(parse_command_line({"help", "Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"help", "trainer.max_epochs"}).help_topic == "trainer.max_epochs");
  CHECK(parse_command_line({"--help", "Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--help=Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "-h", "Digits", "--plugin", "a.so"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help=Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help", "Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help"}).help_topic == "model");
  CHECK(parse_command_line({"fit", "--trainer.callbacks.help"}).help_topic == "trainer.callbacks");
}

TEST_CASE("an option of a class that the configuration names is told with its section") {
  register_fake_classes();
  const TemporaryFolder folder;
  std::ofstream(folder / "run.yaml") << "model: FakeNet\noptimizer: {class_path: FakeSgd}\n"
                                        "trainer: {callbacks: [Timer, {class_path: FakeStopper}]}\n";
  const std::string run = "--config=" + (folder / "run.yaml").string();
  CHECK_THAT(error_of({"fit", "--lr=0.1", run}), Catch::Contains("did you mean '--model.lr=0.1' or '--optimizer.lr=0.1'?"));
  CHECK_THAT(error_of({"fit", run, "--modle.lr=0.1"}), Catch::Contains("did you mean '--model.lr=0.1'?"));
  CHECK_THAT(error_of({"fit", run, "--patience=5"}), Catch::Contains("did you mean '--trainer.callbacks.1.patience=5'?"));
  CHECK_THAT(error_of({"fit", run, "--batch_size=5", "--data=FakeTable"}),
             Catch::Contains("did you mean '--data.batch_size=5'?"));
}

TEST_CASE("the command that resumes is the one that was typed, with the checkpoint in place of another, quoted for a shell") {
  CHECK(resume_command({"build/bin/levin", "fit", "--config", "run.yaml"}, "logs/version_0/checkpoints/epoch=3-step=40.ckpt") ==
        "build/bin/levin fit --config run.yaml --ckpt_path=logs/version_0/checkpoints/epoch=3-step=40.ckpt");
  CHECK(resume_command({"levin", "fit", "--ckpt_path=a.ckpt", "--trainer.max_epochs=2", "--ckpt_path", "b.ckpt"}, "c.ckpt") ==
        "levin fit --trainer.max_epochs=2 --ckpt_path=c.ckpt");
  CHECK(resume_command({"levin", "fit", "--model.text=it's $HOME", "--trainer.callbacks+=[Timer]", ""}, "a b.ckpt") ==
        "levin fit '--model.text=it'\\''s $HOME' '--trainer.callbacks+=[Timer]' '' '--ckpt_path=a b.ckpt'");
  CHECK(resume_command({"levin", "fit", "--init_from=w.pt", "--init_from", "v.pt"}, "c.ckpt", /*has_init_from=*/true) ==
        "levin fit --ckpt_path=c.ckpt --init_from=null");
}

TEST_CASE("maps merge key by key, everything else is replaced") {
  CHECK(merged(yaml("{a: {x: 1, y: 2}, l: [1, 2], s: a}"), yaml("{a: {y: 3, z: 4}, l: [9], s: null}")) ==
        yaml("{a: {x: 1, y: 3, z: 4}, l: [9], s: null}"));
  CHECK(merged(yaml("{a: 1}"), yaml("{a: {b: 1}}")) == yaml("{a: {b: 1}}"));
}

TEST_CASE("an empty section of a later file takes nothing away, null for a class does") {
  CHECK(merged(yaml("{trainer: {max_epochs: 5}}"), yaml("trainer:")) == yaml("{trainer: {max_epochs: 5}}"));
  CHECK(merged(yaml("{optimizer: {class_path: FakeSgd}}"), yaml("optimizer: null")) == yaml("optimizer: null"));
}

TEST_CASE("another class keeps the init_args that it has too") {
  const Value base = yaml("{model: {class_path: FakeNet, init_args: {hidden: 7, lr: 0.5}}}");
  CHECK(merged(base, yaml("{model: {class_path: FakeDeepNet, init_args: {depth: 2}}}")) ==
        yaml("{model: {class_path: FakeDeepNet, init_args: {lr: 0.5, depth: 2}}}"));
  CHECK(merged(base, yaml("{model: FakeDeepNet}")) == yaml("{model: {class_path: FakeDeepNet, init_args: {lr: 0.5}}}"));
  CHECK(merged(base, yaml("{model: {class_path: Unknown}}")) == yaml("{model: {class_path: Unknown, init_args: {}}}"));
  CHECK(merged(base, yaml("{model: {class_path: my.own.FakeNet, init_args: {lr: 1.0}}}")).at("model").at("init_args") ==
        yaml("{hidden: 7, lr: 1.0}"));
}

TEST_CASE("arguments join a class that was named alone") {
  CHECK(merged(yaml("{model: FakeNet}"), yaml("{model: {init_args: {lr: 1.0}}}")) ==
        yaml("{model: {class_path: FakeNet, init_args: {lr: 1.0}}}"));
}

TEST_CASE("an override sets a key, with the YAML type of its text") {
  CHECK(overridden("{trainer: {max_epochs: 1, x: y}}", {{"trainer.max_epochs", "5"}}) ==
        yaml("{trainer: {max_epochs: 5, x: y}}"));
  CHECK(overridden("{}", {{"trainer.gradient_clip_val", "1e-2"}}) == yaml("{trainer: {gradient_clip_val: 0.01}}"));
  CHECK(overridden("{}", {{"trainer.devices", "[0, 1]"}}) == yaml("{trainer: {devices: [0, 1]}}"));
  CHECK(overridden("{}", {{"seed_everything", "null"}}) == yaml("{seed_everything: null}"));
  CHECK(overridden("{trainer: {a: 1}}", {{"trainer", "{b: 2}"}}) == yaml("{trainer: {a: 1, b: 2}}"));
}

TEST_CASE("an override reaches the arguments of a class with init_args or without") {
  const Value expected = yaml("{model: {class_path: FakeNet, init_args: {lr: 0.1}}}");
  CHECK(overridden("{model: {class_path: FakeNet}}", {{"model.lr", "0.1"}}) == expected);
  CHECK(overridden("{model: FakeNet}", {{"model.lr", "0.1"}}) == expected);
  CHECK(overridden("{model: FakeNet}", {{"model.init_args.lr", "0.1"}}) == expected);
  CHECK(overridden("{}", {{"model", "FakeNet"}, {"model.lr", "0.1"}}) == expected);
  CHECK(overridden("{}", {{"model.class_path", "FakeNet"}, {"model.lr", "0.1"}}) == expected);
  CHECK(overridden("{}", {{"model.lr", "0.1"}}).at("model").at("init_args") == yaml("{lr: 0.1}"));
  CHECK(overridden("{model: {class_path: FakeNet, init_args: {hidden: 3, lr: 0.1}}}", {{"model", "FakeDeepNet"}}) ==
        yaml("{model: {class_path: FakeDeepNet, init_args: {lr: 0.1}}}"));
}

TEST_CASE("a scheduler's settings stand beside its arguments") {
  CHECK(overridden("{lr_scheduler: FakeStep}", {{"lr_scheduler.interval", "step"}, {"lr_scheduler.step_size", "4"}}) ==
        yaml("{lr_scheduler: {class_path: FakeStep, interval: step, init_args: {step_size: 4}}}"));
}

TEST_CASE("parameter groups stand beside an optimizer's arguments") {
  CHECK(overridden("{optimizer: FakeSgd}", {{"optimizer.no_decay", "[bias]"}, {"optimizer.lr", "0.5"}}) ==
        yaml("{optimizer: {class_path: FakeSgd, no_decay: [bias], init_args: {lr: 0.5}}}"));
}

TEST_CASE("an override appends to lists and reaches their elements, the last one by default") {
  const Value two = overridden("{}", {{"trainer.callbacks", "FakeStopper", true},
                                      {"trainer.callbacks.patience", "1"},
                                      {"trainer.callbacks", "FakeStopper", true},
                                      {"trainer.callbacks.patience", "2"},
                                      {"trainer.callbacks.0.init_args.mode", "max"},
                                      {"trainer.callbacks.0.monitor", "acc"}});
  CHECK(two == yaml("trainer:\n"
                    "  callbacks:\n"
                    "  - {class_path: FakeStopper, init_args: {patience: 1, mode: max, monitor: acc}}\n"
                    "  - {class_path: FakeStopper, init_args: {patience: 2}}\n"));
  CHECK(overridden("{x: {l: [1]}}", {{"x.l", "[2, 3]", true}}) == yaml("{x: {l: [1, 2, 3]}}"));
  CHECK(overridden("{x: {l: a}}", {{"x.l", "b", true}}) == yaml("{x: {l: [a, b]}}"));
  CHECK(overridden("{x: {l: [1, 2, 3]}}", {{"x.l.1", "9"}}) == yaml("{x: {l: [1, 9, 3]}}"));
}

TEST_CASE("an override that leads nowhere is an error with its name") {
  CHECK_THROWS_WITH(overridden("{trainer: {l: [1, 2]}}", {{"trainer.l.2", "9"}}),
                    "command line: --trainer.l.2: 'trainer.l' has elements 0 to 1, no 2");
  CHECK_THROWS_WITH(overridden("{trainer: {callbacks: []}}", {{"trainer.callbacks.patience", "9"}}),
                    Catch::Contains("'trainer.callbacks' is empty; add an element with --trainer.callbacks+="));
  CHECK_THROWS_WITH(overridden("{trainer: {logger: false}}", {{"trainer.logger.name", "x"}}),
                    Catch::Contains("'trainer.logger' is bool false; it has no 'name'"));
  CHECK_THROWS_WITH(overridden("{}", {{"trainer..x", "9"}}), Catch::Contains("empty part"));
  CHECK_THROWS_WITH(overridden("{}", {{"trainer.x", "[1"}}), Catch::StartsWith("command line: --trainer.x: "));
  std::string deep = "a";
  for (int level = 1; level < 100; ++level) deep += ".a";
  CHECK_NOTHROW(overridden("{}", {{deep, "1"}}));
  CHECK_THROWS_WITH(overridden("{}", {{deep, "[]"}}), Catch::Contains("deeper than 100 levels"));
  CHECK_THROWS_AS(overridden("{x: {l: [1]}}", {{"x.l.99999999999999999999999", "9"}}), ConfigError);
}

TEST_CASE("what an override sets is marked with it") {
  const Value config = overridden("{}", {{"trainer.deep.max_epochs", "5"}, {"model.lr", "1"}, {"trainer.l", "x", true}});
  CHECK(config.at("trainer").at("deep").at("max_epochs").mark().str() == "command line: --trainer.deep.max_epochs");
  CHECK(config.at("trainer").at("deep").mark().str() == "command line: --trainer.deep.max_epochs");
  CHECK(config.at("model").at("init_args").at("lr").key_mark().str() == "command line: --model.lr");
  CHECK(config.at("trainer").at("l").mark().str() == "command line: --trainer.l+");
}

TEST_CASE("an override without a class is for the default logger") {
  const Value logger = yaml("{trainer: {logger: {class_path: CSVLogger, init_args: {name: a}}}}");
  CHECK(overridden("{}", {{"trainer.logger.name", "a"}}) == logger);
  CHECK(overridden("{trainer: {logger: true}}", {{"trainer.logger.name", "a"}}) == logger);
  CHECK_THROWS_WITH(overridden("{}", {{"trainer.callbacks.monitor", "a"}}),
                    "command line: --trainer.callbacks.monitor: 'trainer.callbacks' is empty; add an element with "
                    "--trainer.callbacks+=… first");
}
