#include "levin/cli/subcommands.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using levin::cli::CommandLine;
using levin::cli::ConfigFile;
using levin::cli::Override;
using levin::cli::resume_command;

namespace {

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  return levin::cli::parse_command_line(arguments, levin::cli::subcommands());
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

TEST_CASE("the command may stand behind its options") {
  const CommandLine line = parse_command_line({"--config", "a.yaml", "--plugin", "libmine.so", "test", "--plugin=other.so"});
  CHECK(line.command == "test");
  CHECK(sources_text(line) == "file a.yaml\n");
  CHECK(line.plugins == std::vector<std::string>{"libmine.so", "other.so"});
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
