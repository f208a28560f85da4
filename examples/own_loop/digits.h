#pragma once

#include <levin/levin.h>

namespace nn = torch::nn;

/// What both programs train.
class Digits : public levin::Module {
 public:
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = nn::functional::cross_entropy(net_->forward(batch["features"]), batch["label"]);
    log("train_loss", loss);
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_acc", levin::accuracy(net_->forward(batch["features"]), batch["label"]));
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), 0.002); }

 private:
  nn::Sequential net_ = register_module("net", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::ReLU(),
                                                              nn::MaxPool2d(2), nn::Flatten(), nn::Linear(16 * 4 * 4, 10)));
};

/// The data that both read, each rank its part.
inline levin::TableDataModule digits(const std::string& path, std::int64_t batch_size) {
  return levin::TableDataModule({.path = path, .scale = 1.0 / 16, .shape = {1, 8, 8}, .batch_size = batch_size});
}
