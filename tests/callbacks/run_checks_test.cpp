#include "levin/core/fit_preview.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/data/data_loader.h"
#include "levin/metrics/classification.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Has all that a step changes: BatchNorm's statistics, dropout, streams of random numbers, a metric object, tied weights.
class BusyModule final : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    at::Tensor x = torch::dropout(norm_->forward(first_->forward(batch["inputs"])).tanh(), 0.3, /*train=*/true);
    x = torch::linear(x, first_->weight.t()) * (1 + torch::rand({1}, rank_generator(), x.options()));
    x = second_->forward(x + torch::rand({1}, shared_generator(), x.options()));
    accuracy_.update(x.argmax(1), batch["label"]);
    log("accuracy", accuracy_, {.on_step = true, .on_epoch = true});
    const at::Tensor loss = torch::nn::functional::cross_entropy(x, batch["label"]);
    log("loss", loss);
    return loss;
  }
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }

 private:
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(3, 5));
  torch::nn::Linear tied_ = register_module("tied", first_);
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(5));
  torch::nn::Linear second_ = register_module("second", torch::nn::Linear(3, 4));
  Accuracy& accuracy_ = add_metric<Accuracy>("accuracy", {.num_classes = 4});
};

LoaderPtr shuffled(std::int64_t batch_size) {
  const at::Tensor inputs = torch::arange(54, torch::kFloat).cos().reshape({18, 3});
  const Batch data{{"inputs", inputs}, {"label", torch::arange(18).remainder(4)}};
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(data),
                                      DataLoaderOptions{.batch_size = batch_size, .shuffle = true});
}

/// Asks for a FitPreview in a hook.
struct Previewing final : Callback {
  explicit Previewing(bool too_late) : too_late_(too_late) {}
  void on_fit_start(Trainer& trainer, Module& module) override {
    if (too_late_) return;
    const auto parameters = distinct_parameters(module);
    parameters[0].second.mutable_grad() = torch::ones_like(parameters[0].second);
    at::Tensor loss;
    {
      FitPreview preview(trainer, /*in_64_bits=*/true);
      REQUIRE(preview.has_loss());
      CHECK(preview.loaders().size() == 2);
      loss = preview.loss();
      CHECK(preview.loss().item<double>() == loss.item<double>());
      preview.backward(loss);
      CHECK(parameters[0].second.scalar_type() == torch::kDouble);
      CHECK(parameters[0].second.grad().scalar_type() == torch::kDouble);
    }
    CHECK(loss.scalar_type() == torch::kDouble);
    CHECK(parameters[0].second.scalar_type() == torch::kFloat);
    CHECK(torch::equal(parameters[0].second.grad(), torch::ones_like(parameters[0].second)));
    parameters[0].second.mutable_grad() = at::Tensor();
  }
  void on_train_start(Trainer& trainer, Module&) override {
    if (too_late_) FitPreview preview(trainer);
  }
  bool too_late_;
};

}  // namespace

TEST_CASE("a preview has 64 bits, repeats a step exactly, and gives gradients and types back") {
  ScriptedRun run(1, {std::make_shared<Previewing>(false)});
  BusyModule module;
  Trainer(run.options).fit(module, shuffled(5), {shuffled(7)});
  ScriptedRun late(1, {std::make_shared<Previewing>(true)});
  CHECK_THROWS_WITH(Trainer(late.options).fit(module, shuffled(5)), Catch::Contains("on_fit_start"));
}
