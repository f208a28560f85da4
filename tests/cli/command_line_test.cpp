// What a command line is read as. What overrides make of a configuration is in acceptance/cases/overrides.txt.
#include "levin/cli/config/command_line.h"

#include <catch2/catch.hpp>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/shell_words.h"

using namespace levin;
using namespace levin::cli;

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

TEST_CASE("an option of a command is not taken for a section of that name") {
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

TEST_CASE("the command that resumes is the one that was typed, with this checkpoint only, quoted for a shell") {
  CHECK(resume_command({"build/bin/levin", "fit", "--config", "run.yaml"}, "logs/version_0/checkpoints/epoch=3-step=40.ckpt") ==
        "build/bin/levin fit --config run.yaml --ckpt_path=logs/version_0/checkpoints/epoch=3-step=40.ckpt");
  CHECK(resume_command({"levin", "fit", "--ckpt_path=a.ckpt", "--trainer.max_epochs=2", "--ckpt_path", "b.ckpt"}, "c.ckpt") ==
        "levin fit --trainer.max_epochs=2 --ckpt_path=c.ckpt");
  CHECK(resume_command({"levin", "fit", "--model.text=it's $HOME", "--trainer.callbacks+=[Timer]", ""}, "a b.ckpt") ==
        "levin fit '--model.text=it'\\''s $HOME' '--trainer.callbacks+=[Timer]' '' '--ckpt_path=a b.ckpt'");
  CHECK(resume_command({"levin", "fit", "--init_from=w.pt", "--init_from", "v.pt"}, "c.ckpt", /*has_init_from=*/true) ==
        "levin fit --ckpt_path=c.ckpt --init_from=null");
}
