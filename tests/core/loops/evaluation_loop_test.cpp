#include <catch2/catch.hpp>

#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

class Mean : public Module {
 public:
  Mean() : dropout_(register_module("dropout", torch::nn::Dropout(0.5))) {}
  StepOutput validation_step(const Batch& batch, std::int64_t) override { return record(batch); }
  StepOutput test_step(const Batch& batch, std::int64_t) override { return record(batch); }
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch[0] * 2; }

  bool was_training = true;
  bool had_gradients = true;
  bool was_inference = false;

 private:
  StepOutput record(const Batch& batch) {
    was_training = dropout_->is_training();
    had_gradients = torch::GradMode::is_enabled();
    was_inference = c10::InferenceMode::is_enabled();
    log("mean", batch[0].mean());
    return {};
  }
  torch::nn::Dropout dropout_;
};

std::shared_ptr<FixedLoader> rows(const std::vector<std::vector<float>>& batches) {
  std::vector<Batch> made;
  for (const auto& batch : batches) made.push_back(Batch{{"x", torch::tensor(batch)}});
  return std::make_shared<FixedLoader>(std::move(made));
}

}  // namespace

TEST_CASE("validate gives the mean over samples, not over batches") {
  Mean module;
  Trainer trainer(quiet_options());
  const auto results = trainer.validate(module, {rows({{1, 2, 3}, {10}})}, {.verbose = false});
  REQUIRE(results.size() == 1);
  CHECK(results[0].at("mean") == Approx(4.0));
}

TEST_CASE("evaluation runs in evaluation mode without gradients, and leaves modes as they were") {
  Mean module;
  module.train();
  TrainerOptions options = quiet_options();
  options.inference_mode = GENERATE(true, false);
  Trainer trainer(options);
  trainer.test(module, {rows({{1}})}, {.verbose = false});
  CHECK_FALSE(module.was_training);
  CHECK_FALSE(module.had_gradients);
  CHECK(module.was_inference == options.inference_mode);
  CHECK(module.is_training());
  CHECK(module.children().front()->is_training());
}

TEST_CASE("several loaders give a map each, with the loader's number in the key") {
  Mean module;
  Trainer trainer(quiet_options());
  const auto results = trainer.validate(module, {rows({{1}}), rows({{5}})}, {.verbose = false});
  REQUIRE(results.size() == 2);
  CHECK(results[0] == MetricMap{{"mean/dataloader_idx_0", 1.0}});
  CHECK(results[1] == MetricMap{{"mean/dataloader_idx_1", 5.0}});
}

TEST_CASE("predict gives what predict_step returned, by loader and batch") {
  Mean module;
  TrainerOptions options = quiet_options();
  options.limit_predict_batches = 2;
  Trainer trainer(options);
  const auto predictions = trainer.predict(module, {rows({{1}, {2, 3}, {4}}), rows({{5}})});
  REQUIRE(predictions.size() == 2);
  REQUIRE(predictions[0].size() == 2);
  CHECK(torch::equal(predictions[0][1][0], torch::tensor({4.0F, 6.0F})));
  CHECK(torch::equal(predictions[1][0][0], torch::tensor({10.0F})));
}

TEST_CASE("entry points without data or without their step say what is missing") {
  struct Empty : Module {
  } module;
  Trainer trainer(quiet_options());
  CHECK_THROWS_WITH(trainer.validate(module, LoaderList{}, {}), Catch::Contains("needs data"));
  CHECK_THROWS_WITH(trainer.test(module, {rows({{1}})}, {}), Catch::Contains("no test_step"));
}
