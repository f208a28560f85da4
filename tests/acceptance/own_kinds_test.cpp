#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;

constexpr const char* kPlugin = LEVIN_BINARY_DIR "/tests/plugins/libown_kinds.so";

Outcome fit(const TemporaryFolder& folder, const std::string& accelerator, const std::string& strategy) {
  return digits("fit", folder.path(),
                {"--plugin", kPlugin, "--trainer.accelerator=" + accelerator, "--trainer.strategy=" + strategy,
                 "--trainer.devices=2", "--trainer.max_epochs=1", "--trainer.limit_train_batches=8"});
}

}  // namespace

TEST_CASE("a plug-in's accelerator and strategy are chosen by name, and train as the built-in ones do") {
  const TemporaryFolder own_folder, folder;
  const Outcome own = fit(own_folder, "Toy", "MeanGradients");
  INFO(own.text());
  REQUIRE(own.ok());
  CHECK_THAT(own.out, Contains("ranks: 2 (mean_gradients, metrics over shared memory, gradients over shared memory)"));
  CHECK_THAT(own.out, Contains("[rank 0] device toy:0, process ") && Contains("[rank 1] device toy:1, process "));
  const Outcome built_in = fit(folder, "cpu", "ddp");
  INFO(built_in.text());
  REQUIRE(built_in.ok());
  const auto losses = [](const TemporaryFolder& run) {
    return CsvTable::read(version_folder(run.path()) / "metrics.csv").values("val_loss");
  };
  REQUIRE(losses(own_folder).size() == 1);
  CHECK(losses(own_folder)[0] == Approx(losses(folder)[0]).epsilon(1e-5));

  const Outcome list = levin({"list", "accelerators", "--plugin", kPlugin});
  CHECK_THAT(list.out, Contains("  Toy   Three devices that are not there"));
}

TEST_CASE("a callback, a logger, a sampler and an optimizer of a user's own work together, and go on in a run that resumes") {
  const TemporaryFolder folder;
  const auto fit_epochs = [&](int epochs, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--plugin",
                                          kPlugin,
                                          "--trainer.logger=JsonLines",
                                          "--trainer.callbacks=[GradientNorm]",
                                          "--data.sampler=BlockShuffle",
                                          "--optimizer=SignDescent",
                                          "--optimizer.lr=0.003",
                                          "--trainer.log_every_n_steps=1",
                                          "--trainer.limit_train_batches=8",
                                          "--trainer.max_epochs=" + std::to_string(epochs)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = digits("fit", folder.path(), arguments);
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    std::vector<double> largest;
    std::istringstream lines(read_text(folder / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto values = nlohmann::json::parse(line)["values"];
      if (!values.contains("grad_norm")) continue;
      largest.push_back(values["largest_grad_norm"]);
      CHECK(largest.back() >= values["grad_norm"].get<double>());
    }
    return largest;
  };
  const std::vector<double> first = fit_epochs(1, {});
  REQUIRE(first.size() == 8);
  CHECK(first.front() > 0);
  const std::vector<double> both = fit_epochs(2, {"--ckpt_path=last"});
  REQUIRE(both.size() == 16);
  // What the callback remembered: none is smaller than the largest of the run before.
  CHECK(std::is_sorted(both.begin(), both.end()));
  CHECK(both[8] >= first.back());
}

TEST_CASE("list and schema know the classes of a configuration's plug-ins") {
  CHECK_THAT(levin({"list", "models", "--config", digits_config()}).out, Contains("  Digits  A small convolutional network"));
  CHECK_THAT(levin({"schema", "--config=" + digits_config()}).out, Contains("\"Digits\""));
  CHECK_THAT(levin({"schema"}).out, !Contains("\"Digits\""));
  CHECK_THAT(levin({"schema", "--help"}).out, Contains("--config FILE"));
}

TEST_CASE("an accelerator that nobody knows, or that is not there, is an error before a rank starts") {
  const TemporaryFolder folder;
  const Outcome unknown = fit(folder, "Toi", "MeanGradients");
  CHECK(unknown.status == 2);
  CHECK(unknown.err ==
        "error: command line: --trainer.accelerator: trainer: accelerator: unknown accelerator class 'Toi'; did you mean "
        "'Toy'?\n");
}

}  // namespace levin::test
