// Your own main() around levin's Trainer: own_trainer [DIGITS.CSV [DEVICES]]
#include "digits.h"

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
  nn::Sequential net_ = register_module("net", network());
};

int main(int argc, char** argv) {
  return levin::run_main([&] {
    const levin::Devices devices = argc > 2 ? argv[2] : "1";
    levin::Trainer trainer({.max_epochs = 5, .devices = devices, .threads = 1, .log_every_n_steps = 10});
    levin::seed_everything(42);
    Digits module;
    auto data = digits(argc > 1 ? argv[1] : "examples/digits/data/digits.csv", 32 / devices.count());
    trainer.fit(module, data);
  });
}
