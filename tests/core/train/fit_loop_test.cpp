#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "support/recording.h"
#include "support/scripted_line.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("options and limits say which batches make which steps") {
  struct Sized : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<std::int64_t> batch_size() const override { return 2; }
  };
  const auto of_two = std::make_shared<Sized>(
      std::vector<Batch>{Batch{{"x", torch::tensor({1.0F, 3.0F})}}, Batch{{"x", torch::tensor({8.0F})}}});
  const auto four = numbered({1, 2, 3, 4});
  const auto norm = GradientClipAlgorithm::kNorm;
  const auto value = GradientClipAlgorithm::kValue;
  const auto check = [](const char* what, const TrainerOptions& options, const LoaderPtr& loader,
                        const std::vector<double>& seen, double weight, std::int64_t steps) {
    INFO(what);
    struct Checked : ScriptedLine {
      void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
        CHECK_FALSE(output.loss.requires_grad());
      }
    } module;
    Trainer trainer(quiet(options));
    trainer.fit(module, loader, {numbered({7, 8, 9})});
    CHECK(module.seen == seen);
    CHECK(module.value() == Approx(weight).margin(1e-5));
    CHECK(trainer.global_step() == steps);
    if (options.fast_dev_run) CHECK(module.validated == std::vector<double>{7, 8});
  };
  check("the optimizer steps on the gradient of one batch", {.max_epochs = 2}, numbered({1, 2}), {1, 2, 1, 2}, -6, 4);
  // (1 + 3) / 2, then 5 / 1: Lightning would divide the remainder by 2 as well.
  check("the mean over the batches that there were", {.max_epochs = 1, .accumulate_grad_batches = 2}, numbered({1, 3, 5}),
        {1, 3, 5}, -7, 2);
  check("the same of a loader that does not know its size", {.max_epochs = 1, .accumulate_grad_batches = 2},
        numbered({1, 3, 5}, false), {1, 3, 5}, -7, 2);
  // (1 + 3 + 8) / 3, where the mean of the two means is 5.
  check("the mean over samples of batches of a known size", {.max_epochs = 1, .accumulate_grad_batches = 2}, of_two, {1, 8}, -4,
        1);
  check("an int limits by number", {.max_epochs = 1, .limit_train_batches = 1}, four, {1}, -1, 1);
  check("a float limits by share, of all", {.max_epochs = 1, .limit_train_batches = 1.0}, four, {1, 2, 3, 4}, -10, 4);
  check("a float limits by share", {.max_epochs = 1, .limit_train_batches = 0.5}, four, {1, 2}, -3, 2);
  check("no batch", {.max_epochs = 1, .limit_train_batches = 0}, four, {}, 0, 0);
  check("a limit of a loader that does not know its size", {.max_epochs = 1, .limit_train_batches = 3},
        numbered({1, 2, 3, 4}, false), {1, 2, 3}, -6, 3);
  check("max_steps in the middle of an epoch", {.max_epochs = -1, .max_steps = 5}, numbered({1, 2}), {1, 2, 1, 2, 1}, -7, 5);
  check("clipped by norm", {.max_epochs = 1, .gradient_clip_val = 2.0, .gradient_clip_algorithm = norm}, numbered({10, 1}),
        {10, 1}, -3, 2);
  check("clipped by value", {.max_epochs = 1, .gradient_clip_val = 2.0, .gradient_clip_algorithm = value}, numbered({10, 1}),
        {10, 1}, -3, 2);
  check("0 clips to no norm", {.max_epochs = 1, .gradient_clip_val = 0.0, .gradient_clip_algorithm = norm}, numbered({10, 1}),
        {10, 1}, -11, 2);
  check("0 clips to no value", {.max_epochs = 1, .gradient_clip_val = 0.0, .gradient_clip_algorithm = value}, numbered({10, 1}),
        {10, 1}, -11, 2);
  check("fast_dev_run", {.max_epochs = 7, .fast_dev_run = 2}, four, {1, 2}, -3, 2);
}

TEST_CASE("loaders that are not passed are the module's own") {
  class WithData final : public ScriptedLine {
   public:
    LoaderPtr train_dataloader() override { return numbered({1, 2}); }
    LoaderList val_dataloaders() override { return numbered({7}); }
  } module;
  Trainer trainer(quiet_options(1));
  const bool passes_training_data = GENERATE(true, false);
  if (passes_training_data) trainer.fit(module, numbered({5}));
  if (!passes_training_data) trainer.fit(module);
  CHECK(module.seen == (passes_training_data ? std::vector<double>{5} : std::vector<double>{1, 2}));
  CHECK(trainer.validate(module).size() == 1);
  CHECK(module.validated == std::vector<double>{7, 7});
  CHECK(trainer.validate(module, {numbered({7}), numbered({8})}).size() == 2);
  CHECK(trainer.validate(module, std::vector<LoaderPtr>{numbered({7}), numbered({8}), numbered({9})}).size() == 3);
  CHECK_THROWS_WITH(trainer.test(module), Catch::Contains("test needs data"));
}

TEST_CASE("validation by time is due after the batch that ends it, and stop() ends training after a validation") {
  using Steps = std::vector<std::int64_t>;
  const auto check = [](const TrainerOptions& options, const Steps& validated_after,
                        std::optional<std::int64_t> stops_in = {}) {
    ScriptedLine module;
    Steps after;
    module.on["validation_step"] = [&](auto& self, auto) { after.push_back(self.global_step()); };
    module.on["training_step"] = [&](auto& self, auto) {
      if (stops_in == self.global_step()) self.trainer().stop();
    };
    Trainer trainer(quiet(options));
    trainer.fit(module, counted(4), {counted(1)});
    CHECK(after == validated_after);
    CHECK(trainer.global_step() == (stops_in ? validated_after.back() : 8));
  };
  // Each batch takes longer than no time, and none takes a day.
  const CheckInterval always = std::chrono::seconds(0), never = std::chrono::hours(24);
  check({.max_epochs = 2, .val_check_interval = always}, {1, 2, 3, 4, 5, 6, 7, 8});
  check({.max_epochs = 2, .val_check_interval = always, .check_val_every_n_epoch = 2}, {5, 6, 7, 8});
  check({.max_epochs = 2, .val_check_interval = always, .check_val_every_n_epoch = std::nullopt}, {1, 2, 3, 4, 5, 6, 7, 8});
  check({.max_epochs = 2, .val_check_interval = never}, {});
  check({.max_epochs = 3}, {2}, 1);
  check({.max_epochs = 3, .min_steps = 3}, {4}, 1);  // min_steps sets min_epochs to 1, as in Lightning
  check({.max_epochs = 3, .min_epochs = 2}, {4, 8}, 1);
}

TEST_CASE("a part that is frozen before fit() stays in evaluation mode while the rest trains") {
  struct Transfer final : Module {
    Transfer() { levin::freeze(*backbone_); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      modes += backbone_->is_training() || !head_->is_training() ? 'x' : '.';
      return head_->forward(backbone_->forward(batch[0])).mean();
    }
    void validation_step(const Batch&, std::int64_t) override {}
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::BatchNorm1d backbone_ = register_module("backbone", torch::nn::BatchNorm1d(2));
    torch::nn::Linear head_ = register_module("head", torch::nn::Linear(2, 1));
    std::string modes;
  } module;
  const at::Tensor before = module.head_->weight.detach().clone();
  TrainerOptions options = quiet_options(2);
  Trainer(options).fit(module, FixedLoader::of_rows(2, 3), {FixedLoader::of_rows(1, 3)});
  CHECK(module.modes == "....");
  CHECK(module.backbone_->num_batches_tracked.item<std::int64_t>() == 0);
  CHECK_FALSE(at::equal(module.head_->weight, before));
  // All of a module that was left in evaluation mode trains.
  module.eval();
  Trainer(options).fit(module, FixedLoader::of_rows(1, 3));
  CHECK(module.is_training());
}

TEST_CASE("numbers of hosts, restarts and devices that no run has are refused, and not cut off") {
  constexpr std::int64_t kHuge = (std::int64_t{1} << 32) + 1;
  for (std::int64_t TrainerOptions::*option : {&TrainerOptions::num_nodes, &TrainerOptions::max_restarts}) {
    TrainerOptions options = quiet_options();
    options.*option = kHuge;
    CHECK_THROWS_AS(Trainer(options), ConfigError);
  }
  TrainerOptions options = quiet({.max_restarts = 1, .min_devices = kHuge});
  CHECK_THROWS_AS(Trainer(options), ConfigError);
}
