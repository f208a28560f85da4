// The module of docs/from-lightning.md.
#include <levin/levin.h>

class Regression : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 16;
    double lr = 0.01;
  };
  explicit Regression(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(net_->forward(batch[0]), batch[1]);
    log("train_loss", loss, {.on_step = false, .on_epoch = true, .prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(net_->forward(batch[0]), batch[1]));
  }

  levin::OptimizerSetups configure_optimizers() override {
    return {levin::AdamW(parameters(), options_.lr), levin::StepLr::Options{.step_size = 5, .gamma = 0.5}};
  }

 private:
  using Linear = torch::nn::Linear;
  Options options_;
  torch::nn::Sequential net_ =
      register_module("net", torch::nn::Sequential(Linear(4, options_.hidden), torch::nn::Tanh(), Linear(options_.hidden, 1)));
};

LEVIN_REGISTER_MODULE(Regression);
