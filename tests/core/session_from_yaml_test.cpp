#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>

#include "levin/cli/commands/torch/configured_run.h"
#include "levin/cli/config/load_config.h"
#include "support/file_text.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

std::string yaml_of(const TemporaryFolder& folder) {
  std::ofstream table(folder / "table.csv");
  table << "a,b,label\n";
  for (int row = 0; row < 60; ++row) table << row % 7 << ',' << row % 5 << ',' << (row % 7 > row % 5 ? 1 : 0) << '\n';
  return "seed_everything: 7\n"
         "trainer:\n  max_epochs: 2\n  enable_progress_bar: false\n  default_root_dir: " +
         folder.path().string() +
         "\n"
         "model:\n  class_path: MLPClassifier\n  init_args: {hidden: [8]}\n"
         "optimizer: {class_path: SGD, init_args: {lr: 0.1}}\n"
         "data:\n  class_path: TableDataModule\n  init_args: {path: " +
         (folder / "table.csv").string() + ", batch_size: 10}\n";
}

cli::RunConfig config_of(const std::string& yaml) {
  cli::CommandLine line;
  line.command = "fit";
  line.sources = {cli::ConfigFile{"fit.yaml", yaml}};
  return load_config(line);
}

std::vector<at::Tensor> weights_of(Session& session) { return session.module().parameters(); }

/// Steps through the training data of the YAML, which the session itself does not read.
void drive(Session& session, const std::string& yaml) {
  const auto data = config_of(yaml).data.get();
  data->setup(Stage::kTrain);
  const LoaderPtr loader = data->train_dataloader();
  loader->set_shard(session.shard());
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader->start_epoch(epoch);
    while (auto batch = loader->next()) session.step(*std::move(batch));
    session.end_epoch();
  }
}

TEST_CASE("a session from YAML trains what levin fit does, to the bit, and saves its configuration") {
  const ShownMessages messages;
  const TemporaryFolder folder;
  const std::string yaml = yaml_of(folder);
  std::ofstream(folder / "run.yaml") << yaml;

  const cli::RunConfig config = config_of(yaml);
  Trainer trainer(config.trainer);
  cli::seed(config);
  const auto module = config.model.get();
  const auto data = config.data.get();
  cli::override_optimizers(trainer, config);
  trainer.fit(*module, *data);

  for (const bool is_file : {true, false}) {
    CAPTURE(is_file);
    Session session = is_file ? Session::from_yaml(folder / "run.yaml") : Session::from_yaml_text(yaml);
    session.begin();
    drive(session, yaml);
    CHECK(session.callback_metrics().at("val_loss") == trainer.callback_metrics().at("val_loss"));
    const auto evaluated = session.validate();
    CHECK(evaluated.at(0).at("val_loss") == trainer.callback_metrics().at("val_loss"));
    CHECK(session.test().at(0).contains("test_loss"));
    const auto trained = weights_of(session);
    REQUIRE(trained.size() == module->parameters().size());
    for (std::size_t index = 0; index < trained.size(); ++index) CHECK(trained[index].equal(module->parameters()[index]));
    const auto saved = session.trainer().log_dir() / "config.yaml";
    CHECK(read_text(saved).find("MLPClassifier") != std::string::npos);
    session.end();
  }
}

TEST_CASE("threads make sessions from YAML at the same time, each with a module of its own") {
  const ShownMessages messages;
  const TemporaryFolder folder;
  const std::string yaml = yaml_of(folder);
  const auto trained = [&](const std::string& name) {
    std::vector<std::int64_t> steps;
    for (int run = 0; run < 5; ++run) {
      Session session = Session::from_yaml_text(
          yaml, {"trainer.max_steps=3", "trainer.logger=false", "trainer.threads=1", "trainer.enable_checkpointing=false",
                 "data=null", "model.inputs=2", "model.classes=2", "trainer.default_root_dir=" + (folder / name).string()});
      session.begin();
      while (!session.step({{"features", torch::ones({4, 2})}, {"label", torch::zeros({4}, torch::kLong)}}).stops) {
      }
      steps.push_back(session.global_step());
      session.end();
    }
    return steps;
  };
  auto other = std::async(std::launch::async, trained, "other");
  CHECK(trained("own") == std::vector<std::int64_t>(5, 3));
  CHECK(other.get() == std::vector<std::int64_t>(5, 3));
}

TEST_CASE("a session takes overrides as the command line does") {
  const ShownMessages messages;
  const TemporaryFolder folder;
  Session session = Session::from_yaml_text(
      yaml_of(folder), {"trainer.max_steps=3", "--optimizer.init_args.lr=0.5", "trainer.callbacks+=LearningRateMonitor"});
  session.begin();
  CHECK(session.trainer().options().max_steps == 3);
  CHECK(session.trainer().optimizers().at(0)->param_groups()[0].options().get_lr() == 0.5);
  CHECK(session.trainer().options().callbacks.size() == 1);
  session.end();
}

TEST_CASE("errors of a session's YAML name their line, and overrides themselves") {
  const TemporaryFolder folder;
  const std::string yaml = yaml_of(folder);
  const auto error_of = [](const std::string& text, const std::vector<std::string>& overrides) -> std::string {
    try {
      Session::from_yaml_text(text, overrides);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(error_of(yaml + "trainr: 1\n", {}), Catch::Contains("YAML text:13:1") && Catch::Contains("trainer"));
  CHECK_THAT(error_of(yaml, {"trainer.max_epochs=two"}), Catch::Contains("override: trainer.max_epochs"));
  CHECK_THAT(error_of(yaml, {"trainer.max_epochs"}), Catch::Contains("'trainer.max_epochs' is not KEY=VALUE"));
  CHECK_THAT(error_of(yaml, {"=2"}), Catch::Contains("'=2' is not KEY=VALUE"));
  CHECK_THAT(error_of(yaml, {"trainr.max_epochs=2"}), Catch::Contains("trainer"));
  CHECK_THAT(error_of("trainer: {max_epochs: 2}\n", {}), Catch::Contains("there is no model"));
  CHECK_THAT(error_of("", {}), Catch::Contains("the file is empty"));
}

}  // namespace
}  // namespace levin::test
