#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

const std::string kPlugin = LEVIN_BINARY_DIR "/tests/plugins/libevery_kind.so";

TEST_CASE("a plug-in's classes of every kind train together, named in YAML") {
  const TemporaryFolder folder;
  std::ofstream(folder / "run.yaml") << "plugins: [" << kPlugin << "]\n"
                                     << "model: OneWeight\n"
                                        "data:\n"
                                        "  class_path: DatasetDataModule\n"
                                        "  init_args:\n"
                                        "    train_dataset: {class_path: Counting, init_args: {length: 3}}\n"
                                        "    sampler: {class_path: Backwards}\n"
                                        "    batch_size: 1\n"
                                        "optimizer: {class_path: SignDescent, init_args: {lr: 0.4}}\n"
                                        "lr_scheduler: {class_path: Halving, interval: step}\n"
                                        "trainer:\n"
                                        "  strategy: Alone\n"
                                        "  accelerator: cpu\n"
                                        "  max_epochs: 1\n"
                                        "  log_every_n_steps: 1\n"
                                        "  enable_checkpointing: false\n"
                                     << "  default_root_dir: " << folder.path().string() << "\n"
                                     << "  logger: {class_path: Lines, init_args: {file: " << (folder / "lines").string()
                                     << "}}\n  callbacks: [{class_path: Witness, init_args: {file: "
                                     << (folder / "witness").string() << "}}]\n";
  const Outcome fit = levin({"fit", "--config", folder / "run.yaml"});
  INFO(fit.text());
  REQUIRE(fit.ok());
  CHECK(read_text(folder / "lines") ==
        "{\"weight\":1.0,\"x\":3.0}\n{\"weight\":0.6,\"x\":2.0}\n{\"weight\":0.39999999999999997,\"x\":1.0}\n");
  CHECK(read_text(folder / "witness") == "{\"lr-SignDescent\":0.05}\nmax_epochs=1 reached\nalone\nitself\n");
}

TEST_CASE("a plug-in's classes of every kind are listed, in help and in the schema") {
  const Outcome list = levin({"list", "--plugin", kPlugin});
  const Outcome schema = levin({"schema", "--plugin", kPlugin});
  for (const char* name :
       {"OneWeight", "CountingData", "Counting", "Backwards", "Witness", "Lines", "SignDescent", "Halving", "Alone"}) {
    INFO(name);
    CHECK(list.out.find(std::string("  ") + name + " ") != std::string::npos);
    CHECK(schema.out.find("\"" + std::string(name) + "\"") != std::string::npos);
  }
  const Outcome samplers = levin({"list", "samplers"});
  CHECK(samplers.out.find("RandomSampler") != std::string::npos);
  CHECK(samplers.out.find("ProgressBar") == std::string::npos);
  const Outcome help = levin({"fit", "--help", "DatasetDataModule"});
  CHECK(help.out.find("train_dataset") != std::string::npos);
  CHECK(help.out.find("sampler (class name") != std::string::npos);
}

}  // namespace
}  // namespace levin::test
