#include <levin/levin.h>

namespace nn = torch::nn;

class Sine : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 64;
    double lr = 0.01;
  };
  explicit Sine(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(net_->forward(batch["x"]), batch["y"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(net_->forward(batch["x"]), batch["y"]));
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

 private:
  Options options_;
  nn::Sequential net_ =
      register_module("net", nn::Sequential(nn::Linear(1, options_.hidden), nn::Tanh(), nn::Linear(options_.hidden, 1)));
};

levin::TensorDataset points(std::int64_t count) {
  const auto x = torch::linspace(-3, 3, count).unsqueeze(1);
  return levin::TensorDataset({{"x", x}, {"y", x.sin()}});
}

int main() {
  return levin::run_main([] {
    levin::seed_everything(1);
    Sine module({});
    levin::Trainer trainer({.max_epochs = 10, .quiet = true});
    trainer.fit(module, levin::DataLoader(points(1024), {.batch_size = 64, .shuffle = true}),
                levin::DataLoader(points(100), {.batch_size = 100}));
    std::printf("val_loss %.4f\n", trainer.callback_metrics().at("val_loss"));
  });
}
