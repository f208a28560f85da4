// The module of docs/from-lightning.md.
#include <levin/levin.h>

struct RegressionOptions {
  std::int64_t hidden = 16;
  double lr = 0.01;
  static void declare(levin::OptionList<RegressionOptions>& options) {
    options.add("hidden", &RegressionOptions::hidden, "Width of the hidden layer").min(1);
    options.add("lr", &RegressionOptions::lr, "Learning rate of AdamW").min(0);
  }
};

class Regression : public levin::Module {
 public:
  using Options = RegressionOptions;
  explicit Regression(const RegressionOptions& options) : options_(options) {
    using torch::nn::Linear, torch::nn::Tanh;
    net_ = register_module("net", torch::nn::Sequential(Linear(4, options.hidden), Tanh(), Linear(options.hidden, 1)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(net_->forward(batch[0]), batch[1]);
    log("train_loss", loss, {.on_step = false, .on_epoch = true, .prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(net_->forward(batch[0]), batch[1]));
  }

  levin::OptimizerSetups configure_optimizers() override {
    auto optimizer = std::make_shared<levin::AdamW>(parameters(), options_.lr);
    auto scheduler = std::make_shared<levin::StepLr>(*optimizer, levin::StepLrOptions{.step_size = 5, .gamma = 0.5});
    return {optimizer, scheduler};
  }

 private:
  RegressionOptions options_;
  torch::nn::Sequential net_ = nullptr;
};

LEVIN_REGISTER_MODULE(Regression, "A small network for four numbers");
