#pragma once

#include <levin/levin.h>

#include <cstdint>
#include <memory>

/// What config.yaml may say under `model: init_args:`.
struct @CLASS @Options {
  std::int64_t features = 3;
  std::int64_t hidden = 32;
  double lr = 0.01;

  static void declare(levin::OptionList<@CLASS @Options> & options) {
    options.add("features", &@CLASS @Options::features, "Columns of the table beside the one that is predicted").min(1);
    options.add("hidden", &@CLASS @Options::hidden, "Width of the hidden layers").min(1);
    options.add("lr", &@CLASS @Options::lr, "Learning rate of Adam").above(0);
  }
};

/// Predicts a number from the other columns of a table. TableDataModule reads the table: its batches hold "features" and
/// "label".
class @CLASS @ : public levin::Module {
 public:
  using Options = @CLASS @Options;
  explicit @CLASS @(const Options& options) : options_(options) {
    using torch::nn::Linear, torch::nn::Tanh;
    net_ = register_module(
        "net", torch::nn::Sequential(Linear(options.features, options.hidden), Tanh(), Linear(options.hidden, options.hidden),
                                     Tanh(), Linear(options.hidden, 1)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(predict(batch), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  levin::StepOutput validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(predict(batch), batch["label"]), {.prog_bar = true});
    return {};
  }

  levin::StepOutput test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_error", torch::l1_loss(predict(batch), batch["label"]));
    return {};
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override { return {{"period", predict(batch)}}; }

  levin::OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::Adam>(parameters(), options_.lr);
  }

 private:
  torch::Tensor predict(const levin::Batch& batch) { return net_->forward(batch["features"]).squeeze(1); }

  Options options_;
  torch::nn::Sequential net_;
};
