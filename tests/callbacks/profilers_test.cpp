#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "levin/core/base/error.h"
#include "levin/core/profiler.h"
#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;

namespace {

/// Trains on 4 batches, validates on 3.
class Profiled final : public Module {
 public:
  Profiled() : weight(register_parameter("weight", torch::ones({2}))) {}
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    const auto timing = trainer().profile("augment");
    if (batch_idx == fails_at) throw std::runtime_error("no batch today");
    return (weight * batch[0]).sum();
  }
  void validation_step(const Batch&, std::int64_t) override {}
  void test_step(const Batch&, std::int64_t) override {}
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch; }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  at::Tensor weight;
  std::int64_t fails_at = -1;
};

class Watching final : public Callback {};

void fit(Profiled& module, Component<Profiler> profiler, const std::filesystem::path& folder, std::int64_t epochs = 2) {
  TrainerOptions options = quiet_options();
  options.max_epochs = epochs;
  options.profiler = std::move(profiler);
  options.default_root_dir = folder;
  options.log_file = folder / "console.txt";
  options.callbacks = {std::make_shared<Watching>()};
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(4, 2), {FixedLoader::of_rows(3, 2)});
}

Component<Profiler> torch_profiler(Value::Map options) { return {Value("torch"), Value(std::move(options))}; }

nlohmann::json read_trace(const std::filesystem::path& file) { return nlohmann::json::parse(read_text(file)); }

int count(const nlohmann::json& trace, const std::string& name) {
  const auto& events = trace.at("traceEvents");
  return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const auto& event) {
    return event.value("name", "") == name && event.value("ph", "") == "X";
  }));
}

}  // namespace

TEST_CASE("the simple profiler counts hooks, actions and the user's own, by Lightning's names") {
  const TemporaryFolder folder;
  Profiled module;
  fit(module, "simple", folder.path());
  const std::string table = read_text(folder / "fit-profile-0.txt");
  const auto calls = [&](const std::string& action) {
    std::smatch row;
    const std::regex calls_of_action("\n" + std::regex_replace(action, std::regex("[[\\].]"), "\\$&") + " +\\| +([0-9]+) ");
    return std::regex_search(table, row, calls_of_action) ? std::stoi(row[1]) : 0;
  };
  CHECK(calls("[LightningModule]Profiled.training_step") == 8);
  CHECK(calls("[Callback]Watching.on_train_batch_end") == 8);
  CHECK(calls("[LightningModule]Profiled.validation_step") == 6);
  CHECK(calls("[_TrainingEpochLoop].train_dataloader_next") == 8);
  CHECK(calls("[_EvaluationLoop].val_next") == 6);
  CHECK(calls("run_training_batch") == 8);
  CHECK(calls("run_training_epoch") == 2);
  CHECK(calls("augment") == 8);
  // Times of an action include those within it.
  CHECK(table.find("\nrun_training_epoch ") < table.find("\nrun_training_batch "));
  CHECK(table.find("\nrun_training_batch ") < table.find("\naugment "));
  CHECK_THAT(table, Contains("action") && Contains("share") && Contains("100.0 %"));
  CHECK_THAT(read_text(folder / "console.txt"), Contains("Profile of rank 0") && Contains("augment"));
}

TEST_CASE("each entry point has a profile of its own, where the options say") {
  const TemporaryFolder folder;
  Value arguments(Value::Map{});
  arguments["dirpath"] = Value((folder / "profiles").string());
  arguments["filename"] = Value("mine");
  TrainerOptions options = quiet_options();
  options.max_epochs = 1;
  options.default_root_dir = folder.path();
  options.profiler = Component<Profiler>(Value("lightning.pytorch.profilers.SimpleProfiler"), arguments);
  Trainer trainer(options);
  Profiled module;
  trainer.fit(module, FixedLoader::of_rows(4, 2));
  trainer.validate(module, {FixedLoader::of_rows(3, 2)});
  trainer.test(module, {FixedLoader::of_rows(3, 2)});
  trainer.predict(module, {FixedLoader::of_rows(3, 2)});
  CHECK_THAT(read_text(folder / "profiles/test-mine-0.txt"), Contains("[_EvaluationLoop].test_next"));
  CHECK_THAT(read_text(folder / "profiles/predict-mine-0.txt"), Contains("[_PredictionLoop].predict_next"));
  CHECK_THAT(read_text(folder / "profiles/fit-mine-0.txt"), Contains("training_step"));
  CHECK_THAT(read_text(folder / "profiles/validate-mine-0.txt"), Contains("validation_step") && !Contains("training_step"));
}

TEST_CASE("a fit that fails leaves the profile of what was done") {
  const TemporaryFolder folder;
  Profiled module;
  module.fails_at = 2;
  CHECK_THROWS_WITH(fit(module, "simple", folder.path()), Contains("no batch today"));
  const std::string table = read_text(folder / "fit-profile-0.txt");
  CHECK_THAT(table, Contains("training_step"));
  // Also the action that the error has left is ended.
  CHECK_THAT(table, Contains("augment"));
}

TEST_CASE("without a profiler there is none") {
  Trainer trainer(quiet_options());
  CHECK(trainer.profiler() == nullptr);
  const auto timing = trainer.profile("nothing");
}

TEST_CASE("the torch profiler traces the batches of its window, with operators and actions") {
  const TemporaryFolder folder;
  Profiled module;
  fit(module, torch_profiler({{"wait", 1}, {"warmup", 1}, {"active", 3}}), folder.path());
  const nlohmann::json trace = read_trace(folder / "fit-profile-0.pt.trace.json");
  CHECK(count(trace, "[LightningModule]Profiled.training_step") == 3);
  CHECK(count(trace, "augment") == 3);
  CHECK(count(trace, "aten::mul") >= 3);
  CHECK_FALSE(std::filesystem::exists(folder / "fit-profile-0-1.pt.trace.json"));
}

TEST_CASE("the torch profiler begins its window again, and keeps one that the end of a run cuts short") {
  const TemporaryFolder folder;
  Profiled module;
  // 8 batches: 3, 3 and 2 of which 1 is kept
  fit(module, torch_profiler({{"filename", "trace"}, {"wait", 0}, {"warmup", 1}, {"active", 2}, {"repeat", 0}}), folder.path());
  CHECK(count(read_trace(folder / "fit-trace-0.pt.trace.json"), "augment") == 2);
  CHECK(count(read_trace(folder / "fit-trace-0-1.pt.trace.json"), "augment") == 2);
  CHECK(count(read_trace(folder / "fit-trace-0-2.pt.trace.json"), "augment") == 1);
}

TEST_CASE("a window that no batch reaches is told") {
  const TemporaryFolder folder;
  Profiled module;
  fit(module, torch_profiler({{"wait", 100}}), folder.path());
  CHECK_THAT(read_text(folder / "console.txt"), Contains("TorchProfiler recorded nothing") && Contains("there were 8"));
}
