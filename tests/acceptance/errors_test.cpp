#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// Runs `levin fit` on a YAML text, with the digits plug-in at hand.
Outcome fit_with(const TemporaryFolder& folder, const std::string& yaml) {
  std::ofstream(folder / "run.yaml") << yaml;
  return levin({"fit", "--config", (folder / "run.yaml").string(), "--trainer.default_root_dir=" + folder.path().string()});
}

const std::string kGood =
    "plugins: [libdigits.so]\n"
    "model: {class_path: Digits}\n"
    "data: {class_path: TableDataModule, init_args: {path: " LEVIN_SOURCE_DIR
    "/examples/digits/data/digits.csv}}\n"
    "trainer:\n";

TEST_CASE("a wrong configuration ends with status 2 and says where and what") {
  const TemporaryFolder folder;
  SECTION("a key that does not exist") {
    const Outcome outcome = fit_with(folder, kGood + "  max_epoch: 1\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err,
               Contains("run.yaml:5:3") && Contains("max_epoch") && Contains("did you mean") && Contains("max_epochs"));
  }
  SECTION("a wrong type") {
    const Outcome outcome = fit_with(folder, kGood + "  max_epochs: many\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:5:15") && Contains("many"));
  }
  SECTION("a value out of range") {
    const Outcome outcome = fit_with(folder, kGood + "  accumulate_grad_batches: 0\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:5:28") && Contains("accumulate_grad_batches"));
  }
  SECTION("an argument of a class") {
    const Outcome outcome = fit_with(folder, kGood + "  callbacks: [{class_path: EarlyStoping}]\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:5:") && Contains("EarlyStoping") && Contains("EarlyStopping"));
  }
  SECTION("a data file that is missing") {
    const Outcome outcome = fit_with(folder,
                                     "plugins: [libdigits.so]\nmodel: Digits\n"
                                     "data: {class_path: TableDataModule, init_args: {path: nowhere.csv}}\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:3:") && Contains("nowhere.csv"));
  }
  SECTION("a plug-in that is missing") {
    const Outcome outcome = fit_with(folder, "plugins: [libnowhere.so]\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:1:11") && Contains("libnowhere.so"));
  }
  SECTION("no YAML") {
    const Outcome outcome = fit_with(folder, "trainer: {max_epochs: 1\n");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:"));
  }
  SECTION("a document 100,000 levels deep") {
    const Outcome outcome = fit_with(folder, std::string(100000, '[') + std::string(100000, ']'));
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("run.yaml:"));
  }
  SECTION("a checkpoint that is missing") {
    const Outcome outcome = digits("test", folder.path(), {"--ckpt_path=" + (folder / "nowhere.ckpt").string()});
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("nowhere.ckpt"));
  }
  CHECK_FALSE(fs::exists(folder / "logs"));
}

TEST_CASE("options that do not fit together are told once, by the launcher, at their place") {
  const TemporaryFolder folder;
  const auto told_once = [&](const std::string& trainer, const std::string& error) {
    const Outcome outcome = fit_with(folder, kGood + "  accelerator: cpu\n  devices: 2\n" + trainer);
    INFO(outcome.text());
    CHECK(outcome.status == 2);
    const std::size_t first = outcome.err.find(error);
    REQUIRE(first != std::string::npos);
    CHECK(outcome.err.find(error, first + 1) == std::string::npos);
    CHECK_THAT(outcome.err, !Contains("rank"));
    CHECK(outcome.out.empty());
  };
  told_once("  min_epochs: 3\n  max_epochs: 2\n", "run.yaml:7:15: trainer: min_epochs is above max_epochs");
  told_once("  enable_checkpointing: false\n  callbacks: [ModelCheckpoint]\n",
            "run.yaml:7:25: trainer: enable_checkpointing is false, but callbacks hold ModelCheckpoint");
  told_once("  callbacks: [{class_path: ModelCheckpoint, init_args: {save_top_k: 3}}]\n",
            "run.yaml:7:69: trainer: callbacks: without a monitor nothing says which checkpoints are best");
  told_once("  strategy: {class_path: ddp, init_args: {process_group_backend: nccl}}\n",
            "process_group_backend: nccl needs GPUs");
}

TEST_CASE("a model that brings its data needs no data:, and one that does not says so") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2);
  const auto fit = [&](const std::string& model) {
    return fit_with(folder, "plugins: [" LEVIN_BINARY_DIR "/tests/plugins/libfaulty.so]\nmodel: {class_path: " + model +
                                ", init_args: {fault: none}}\ntrainer: {max_epochs: 1, accelerator: cpu, devices: " +
                                std::to_string(ranks) + "}\n");
  };
  const Outcome own = fit("SelfFed");
  INFO(own.text());
  CHECK(own.ok());
  CHECK_THAT(own.out, Contains(ranks == 1 ? "Epoch 0: 16/16" : "Epoch 0: 8/8"));
  const Outcome none = fit("Faulty");
  INFO(none.text());
  CHECK(none.status == 1);
  CHECK_THAT(none.err, Contains("fit needs training data") && Contains("`data:`"));
}

TEST_CASE("a wrong command line ends with status 2") {
  CHECK(levin({}).status == 2);
  CHECK(levin({"train"}).status == 2);
  CHECK(levin({"fit", "--config", "nowhere.yaml"}).status == 2);
  const Outcome outcome = levin({"fit", "--config", digits_config(), "--trainer.max_epoch=1"});
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("--trainer.max_epoch") && Contains("max_epochs"));
}

TEST_CASE("contradictory variables of a launcher end with status 2 and are named") {
  const TemporaryFolder folder;
  const std::vector<std::string> fit = {levin_program(), "fit", "--config", digits_config(),
                                        "--trainer.default_root_dir=" + folder.path().string()};
  const Outcome half_set = run({.arguments = fit, .environment = {{"RANK", "0"}}});
  CHECK(half_set.status == 2);
  CHECK_THAT(half_set.err, Contains("WORLD_SIZE"));
  const Outcome outside = run(
      {.arguments = fit,
       .environment = {
           {"RANK", "2"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29511"}}});
  CHECK(outside.status == 2);
  CHECK_THAT(outside.err, Contains("RANK"));
}

TEST_CASE("a damaged checkpoint is refused by name") {
  const TemporaryFolder folder;
  std::ofstream(folder / "damaged.ckpt") << "not a checkpoint";
  const Outcome outcome = digits("test", folder.path(), {"--ckpt_path=" + (folder / "damaged.ckpt").string()});
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.err, Contains("damaged.ckpt"));
}

TEST_CASE("a run that starts in a folder which is gone says so, and nothing else") {
  const TemporaryFolder folder;
  Command command;
  command.arguments = {"sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" --version", levin_program()};
  command.folder = folder.path();
  const Outcome outcome = run(command);
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Contains("levin: the folder that this was started in is gone") && !Contains("MKL"));
}

TEST_CASE("an error that leaves a program's own main is told as levin tells it") {
  const auto end = [](const std::string& how) { return run({.arguments = {LEVIN_BINARY_DIR "/bin/own_main_program", how}}); };
  CHECK(end("well").ok());
  const Outcome config = end("config"), standard = end("standard"), other = end("other");
  CHECK(config.status == 2);
  CHECK(config.err == "error: max_epochs: must be at least -1\n");
  CHECK(standard.status == 1);
  CHECK(standard.err == "error: no such camera\n");
  CHECK(other.status == 1);
  CHECK_THAT(other.err, Contains("error: an exception of type int, which is no std::exception") && !Contains("terminate"));
}

TEST_CASE("a start that fails leaves no version folder") {
  const TemporaryFolder folder;
  std::ofstream(folder / "wrong.csv") << "1,2\n3,x\n";
  const std::string devices = GENERATE("--trainer.devices=1", "--trainer.devices=2");
  const Outcome wrong = digits("fit", folder.path(), {"--data.init_args.path=" + (folder / "wrong.csv").string(), devices});
  INFO(wrong.text());
  CHECK_FALSE(wrong.ok());
  CHECK_FALSE(fs::exists(version_folder(folder.path())));
  REQUIRE(digits("fit", folder.path(), {"--trainer.max_epochs=1", "--trainer.limit_train_batches=1", devices}).ok());
  CHECK(fs::exists(version_folder(folder.path()) / "config.yaml"));
}

TEST_CASE("a forgotten plug-in is named as what is missing") {
  const TemporaryFolder folder;
  const Outcome outcome = fit_with(folder, "model: Digits\n");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("run.yaml:1:8") && Contains("no model class is registered") && Contains("`plugins:`"));
}

TEST_CASE("what a run does otherwise than it may seem is warned of once") {
  const TemporaryFolder folder;
  const auto warned_once = [&](std::vector<std::string> more, const std::string& warning) {
    more.insert(more.end(), {"--trainer.fast_dev_run=1", "--trainer.accelerator=cpu"});
    const Outcome outcome = digits("fit", folder.path(), more);
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    const std::size_t first = outcome.err.find(warning);
    REQUIRE(first != std::string::npos);
    CHECK(outcome.err.find(warning, first + 1) == std::string::npos);
  };
  warned_once({"--trainer.precision=16-mixed"}, "16-mixed computes in bfloat16 on cpu");
  const std::string devices = std::to_string(std::thread::hardware_concurrency() + 1);
  warned_once({"--trainer.devices=" + devices}, "trainer.devices: " + devices + " ranks share ");
  warned_once({"--plugin", LEVIN_BINARY_DIR "/tests/plugins/libunoptimized.so"}, "was compiled without optimization");
}

TEST_CASE("a log folder that is removed while the run is on ends it with an error") {
  const TemporaryFolder folder;
  const fs::path logs = version_folder(folder.path());
  // Removed when the first rows are there, of a run that would go on for long. A checkpoint that is just being written would be
  // the first to notice, and say so in words of its own.
  const char* const script = R"(
    "$0" fit --config "$1" --trainer.default_root_dir="$2" --trainer.max_epochs=10000 \
      '--trainer.callbacks=[]' --trainer.enable_checkpointing=false &
    until [ -s "$3/metrics.csv" ]; do kill -0 $! || exit 99; done
    rm -rf "$3"
    wait $!)";
  Command command;
  command.arguments = {"sh", "-c", script, levin_program(), digits_config(), folder.path().string(), logs.string()};
  const Outcome outcome = run(command);
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.err, Contains((logs / "metrics.csv").string() + " is gone"));
}

}  // namespace
}  // namespace levin::test
