#include "levin/cli/command_line.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using levin::cli::CommandLine;
using levin::cli::ConfigFile;
using levin::cli::Override;
using levin::cli::parse_command_line;

namespace {

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
  try {
    parse_command_line(arguments);
  } catch (const levin::ConfigError& error) {
    return error.what();
  }
  return "no error";
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

TEST_CASE("an empty checkpoint is an error, as of a variable that is unset") {
  CHECK_THAT(error_of({"test", "--ckpt_path="}), Catch::Contains("command line: --ckpt_path: it is empty"));
  CHECK_THAT(error_of({"test", "--ckpt_path", ""}), Catch::Contains("command line: --ckpt_path: it is empty"));
}

TEST_CASE("a file that is looked into or exported is taken with its options") {
  CHECK(parse_command_line({"inspect", "a.ckpt", "--json"}).file.as_json);
  const auto save = parse_command_line({"export", "a.ckpt", "--to", "lightning", "-o", "b.ckpt", "--add_prefix=model."});
  CHECK(save.command == "export");
  CHECK(save.file.file == "a.ckpt");
  CHECK(save.file.format == "lightning");
  CHECK(save.file.output == "b.ckpt");
  CHECK(save.file.add_prefix == "model.");
  CHECK_THAT(error_of({"export", "a.ckpt", "--to", "onnx"}), Catch::Contains("safetensors"));
  CHECK_THAT(error_of({"inspect"}), Catch::Contains("file"));
}

TEST_CASE("the command may stand behind its options") {
  const CommandLine line = parse_command_line({"--config", "a.yaml", "--plugin", "libmine.so", "test", "--plugin=other.so"});
  CHECK(line.command == "test");
  CHECK(sources_text(line) == "file a.yaml\n");
  CHECK(line.plugins == std::vector<std::string>{"libmine.so", "other.so"});
}

TEST_CASE("flags and kinds are taken") {
  CHECK(parse_command_line({"fit", "--print_config"}).print_config);
  CHECK_FALSE(parse_command_line({"fit"}).print_config);
  CHECK(parse_command_line({"list", "callbacks"}).list_kind == "callbacks");
  CHECK(parse_command_line({"list"}).list_kind.empty());
  CHECK(parse_command_line({"schema", "--plugin", "a.so"}).plugins == std::vector<std::string>{"a.so"});
}

TEST_CASE("help is asked for as a whole, for a command, a class or a key") {
  CHECK_THAT(parse_command_line({"--help"}).output, Catch::Contains("validate") && Catch::Contains("schema"));
  CHECK_THAT(parse_command_line({"fit", "--help"}).output,
             Catch::Contains("--print_config") && Catch::Contains("seed_everything") && Catch::Contains("--config"));
  CHECK_THAT(parse_command_line({"--version"}).output,
             Catch::Matchers::StartsWith("levin " LEVIN_TEST_VERSION ", LibTorch ") && Catch::Matchers::EndsWith("\n"));
  CHECK(parse_command_line({"--help", "Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--help=Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "-h", "Digits", "--plugin", "a.so"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help=Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help", "Digits"}).help_topic == "Digits");
  CHECK(parse_command_line({"fit", "--model.help"}).help_topic == "model");
  CHECK(parse_command_line({"fit", "--trainer.callbacks.help"}).help_topic == "trainer.callbacks");
}

TEST_CASE("a wrong command line is an error that says what was meant") {
  CHECK_THAT(error_of({}), Catch::Contains("a command is needed"));
  CHECK_THAT(error_of({"fitt"}), Catch::Contains("unexpected argument 'fitt'; did you mean 'fit'?"));
  CHECK_THAT(error_of({"train"}), Catch::Contains("the commands are 'fit', 'validate'"));
  CHECK_THAT(error_of({"fit", "run.yaml"}), Catch::Contains("unexpected argument 'run.yaml'; give it with --config"));
  CHECK_THAT(error_of({"fit", "--trianer.max_epochs=5"}), Catch::Contains("did you mean '--trainer.max_epochs=5'?"));
  CHECK_THAT(error_of({"fit", "--print-confg"}), Catch::Contains("did you mean '--print_config'?"));
  CHECK_THAT(error_of({"fit", "--qqqqqqqq"}), Catch::Contains("unknown option '--qqqqqqqq'") && Catch::Contains("'trainer'"));
  CHECK_THAT(error_of({"fit", "--config"}), Catch::Contains("command line: --config: needs a value: --config=FILE"));
  CHECK_THAT(error_of({"fit", "--trainer.max_epochs"}), Catch::Contains("needs a value: --trainer.max_epochs=VALUE"));
  CHECK_THAT(error_of({"fit", "--trainer.max_epochs", "--model=X"}), Catch::Contains("needs a value"));
  CHECK_THAT(error_of({"fit", "--plugin"}), Catch::Contains("plugin"));
  CHECK_THAT(error_of({"fit", "test"}), Catch::Contains("one command at a time"));
  CHECK_THAT(error_of({"fit", "-config", "a.yaml"}), Catch::Contains("did you mean '--config'?"));
  CHECK_THAT(error_of({"fit", "-config=a.yaml"}), Catch::Contains("did you mean '--config=a.yaml'?"));
}

TEST_CASE("an option without its section is told with it") {
  CHECK(error_of({"fit", "--max_epochs=3"}) ==
        "command line: unknown option '--max_epochs=3'; did you mean '--trainer.max_epochs=3'?");
  CHECK_THAT(error_of({"fit", "--max-epochs", "3"}), Catch::Contains("did you mean '--trainer.max_epochs'?"));
  CHECK_THAT(error_of({"fit", "--max_epoch=3"}), Catch::Contains("did you mean '--trainer.max_epochs=3'?"));
  CHECK_THAT(error_of({"fit", "--callbacks+=Timer"}), Catch::Contains("did you mean '--trainer.callbacks+=Timer'?"));
  CHECK_THAT(error_of({"fit", "--interval=step"}), Catch::Contains("did you mean '--lr_scheduler.interval=step'?"));
  CHECK_THAT(error_of({"fit", "--epochs=3"}),
             Catch::Contains("did you mean '--trainer.max_epochs=3' or '--trainer.min_epochs=3'"));
  CHECK_THAT(error_of({"fit", "--seed=3"}), Catch::Contains("did you mean '--seed_everything=3'?"));
  CHECK_THAT(error_of({"fit", "--config", "missing.yaml", "--max_epochs=3"}), Catch::Contains("'--trainer.max_epochs=3'?"));
}

TEST_CASE("an option of a class that the configuration names is told with its section") {
  levin::test::register_fake_classes();
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "run.yaml") << "model: FakeNet\noptimizer: {class_path: FakeSgd}\n"
                                        "trainer: {callbacks: [Timer, {class_path: FakeStopper}]}\n";
  const std::string run = "--config=" + (folder / "run.yaml").string();
  CHECK_THAT(error_of({"fit", "--lr=0.1", run}), Catch::Contains("did you mean '--model.lr=0.1' or '--optimizer.lr=0.1'?"));
  CHECK_THAT(error_of({"fit", run, "--modle.lr=0.1"}), Catch::Contains("did you mean '--model.lr=0.1'?"));
  CHECK_THAT(error_of({"fit", run, "--patience=5"}), Catch::Contains("did you mean '--trainer.callbacks.1.patience=5'?"));
  CHECK_THAT(error_of({"fit", run, "--batch_size=5", "--data=FakeTable"}),
             Catch::Contains("did you mean '--data.batch_size=5'?"));
}
