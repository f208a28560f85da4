// A fit whose optimizer, made by name, has several parameter groups.
#include <catch2/catch.hpp>

#include "levin/core/optimizers/grouped_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/seed.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

struct GroupedModule : Module {
  GroupedModule() {
    seed_everything(1);
    layers_ = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(2, 4), torch::nn::LayerNorm(torch::nn::LayerNormOptions({4}))));
    head_ = register_module("head", torch::nn::Linear(4, 1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return head_->forward(layers_->forward(batch[0])).pow(2).mean();
  }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters()) all.push_back(parameter.detach().clone());
    return all;
  }

 private:
  torch::nn::Sequential layers_;
  torch::nn::Linear head_ = nullptr;
};

struct GroupedRun {
  explicit GroupedRun(std::int64_t max_epochs, const RunOptions& run = {}) : trainer(options(max_epochs)) {
    ParameterGroupOptions groups;
    groups.no_decay = {"bias"};
    groups.groups = {{{"^head\\."}, Value(Value::Map{{"lr", Value(0.1)}})}};
    const Value adam(Value::Map{{"lr", Value(0.01)}, {"weight_decay", Value(0.2)}});
    trainer.override_optimizers(std::make_shared<GroupedOptimizerFactory>("AdamW", adam, groups),
                                Registry<LrSchedulerFactory>::instance().make(
                                    "StepLR", Value(Value::Map{{"step_size", Value(1)}, {"gamma", Value(0.5)}})),
                                Value(Value::Map{{"interval", Value("epoch")}}));
    trainer.fit(module, FixedLoader::of_rows(3, 2), {}, run);
  }
  static TrainerOptions options(std::int64_t max_epochs) {
    TrainerOptions quiet = quiet_options(max_epochs);
    return quiet;
  }

  GroupedModule module;
  Trainer trainer;
};

}  // namespace

TEST_CASE("each group's rate follows the schedule from its own, and is monitored by name") {
  const GroupedRun run(2);
  const MetricMap rates = learning_rates(run.trainer);
  CHECK(rates.size() == 4);
  CHECK(rates.at("lr-AdamW/pg1") == Approx(0.0025));
  CHECK(rates.at("lr-AdamW/pg2") == Approx(0.0025));
  CHECK(rates.at("lr-AdamW/pg3") == Approx(0.025));
  CHECK(rates.at("lr-AdamW/pg4") == Approx(0.025));
}

TEST_CASE("a run with parameter groups resumes to the same bits") {
  const TemporaryFolder folder;
  const GroupedRun whole(3);
  GroupedRun half(1);
  half.trainer.save_checkpoint(folder / "half.ckpt");
  const GroupedRun resumed(3, {.ckpt_path = (folder / "half.ckpt").string()});
  CHECK(resumed.trainer.global_step() == whole.trainer.global_step());
  const auto expected = whole.module.weights();
  const auto got = resumed.module.weights();
  REQUIRE(got.size() == expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) CHECK(got[index].equal(expected[index]));
  CHECK(get_lrs(*resumed.trainer.optimizers()[0]) == get_lrs(*whole.trainer.optimizers()[0]));
}

TEST_CASE("a pattern that matches no parameter ends the start, at its place") {
  GroupedModule module;
  Trainer trainer(GroupedRun::options(1));
  ParameterGroupOptions groups;
  groups.no_decay = {NamePattern("baes", Mark{"run.yaml", 9, 14})};
  trainer.override_optimizers(std::make_shared<GroupedOptimizerFactory>("AdamW", Value(Value::Map{}), groups), nullptr);
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(1, 1)),
                    Catch::StartsWith("run.yaml:9:14: no parameter's name matches 'baes'; did you mean 'bias'?"));
}
