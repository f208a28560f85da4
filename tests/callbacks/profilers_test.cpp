#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "levin/core/profiler.h"
#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;

namespace {

// What the simple profiler counts is in acceptance/cases/callbacks.txt.

class Profiled final : public Module {
 public:
  Profiled() : weight(register_parameter("weight", torch::ones({2}))) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const auto timing = trainer().profile("augment");
    if (trainer().global_step() == fails_in_step) throw std::runtime_error("the step fails");
    return (weight * batch[0]).sum();
  }
  void validation_step(const Batch&, std::int64_t) override {}
  void test_step(const Batch&, std::int64_t) override {}
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch; }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  at::Tensor weight;
  std::int64_t fails_in_step = -1;
};

/// Two epochs with the torch profiler.
void fit_traced(Value::Map profiler, const std::filesystem::path& folder, std::int64_t fails_in_step = -1) {
  TrainerOptions options = quiet_options();
  options.max_epochs = 2;
  options.profiler = Component<Profiler>(Value("torch"), Value(std::move(profiler)));
  options.default_root_dir = folder;
  Profiled module;
  module.fails_in_step = fails_in_step;
  Trainer(options).fit(module, FixedLoader::of_rows(4, 2), {FixedLoader::of_rows(3, 2)});
}

nlohmann::json read_trace(const std::filesystem::path& file) { return nlohmann::json::parse(read_text(file)); }

int count(const nlohmann::json& trace, const std::string& name) {
  const auto& events = trace.at("traceEvents");
  return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const auto& event) {
    return event.value("name", "") == name && event.value("ph", "") == "X";
  }));
}

}  // namespace

TEST_CASE("each entry point has a separate profile, where the options say") {
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
  CHECK_THAT(read_text(folder / "profiles/fit-mine-0.txt"), Contains("training_step") && Contains("\naugment "));
  CHECK_THAT(read_text(folder / "profiles/validate-mine-0.txt"), Contains("validation_step") && !Contains("training_step"));
}

TEST_CASE("without a profiler there is none") {
  Trainer trainer(quiet_options());
  CHECK(trainer.profiler() == nullptr);
  const auto timing = trainer.profile("nothing");
}

TEST_CASE("the torch profiler traces the batches of its window, with operators and actions") {
  const TemporaryFolder folder;
  fit_traced({{"wait", 1}, {"warmup", 1}, {"active", 3}}, folder.path());
  const nlohmann::json trace = read_trace(folder / "fit-profile-0.pt.trace.json");
  CHECK(count(trace, "[LightningModule]Profiled.training_step") == 3);
  CHECK(count(trace, "augment") == 3);
  CHECK(count(trace, "aten::mul") >= 3);
  CHECK_FALSE(std::filesystem::exists(folder / "fit-profile-0-1.pt.trace.json"));
}

TEST_CASE("the torch profiler begins its window again, and writes one that the end of a run cuts short") {
  const TemporaryFolder folder;
  // 8 batches: 3, 3 and 2 of which 1 is traced
  fit_traced({{"filename", "trace"}, {"wait", 0}, {"warmup", 1}, {"active", 2}, {"repeat", 0}}, folder.path());
  CHECK(count(read_trace(folder / "fit-trace-0.pt.trace.json"), "augment") == 2);
  CHECK(count(read_trace(folder / "fit-trace-0-1.pt.trace.json"), "augment") == 2);
  CHECK(count(read_trace(folder / "fit-trace-0-2.pt.trace.json"), "augment") == 1);
}

TEST_CASE("the torch profiler writes the window in which a run fails") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(fit_traced({{"wait", 0}, {"warmup", 1}, {"active", 5}}, folder.path(), /*fails_in_step=*/3),
                    Contains("the step fails"));
  CHECK(count(read_trace(folder / "fit-profile-0.pt.trace.json"), "augment") == 3);
}
