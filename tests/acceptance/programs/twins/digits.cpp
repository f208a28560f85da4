#include <levin/levin.h>

namespace nn = torch::nn;

class Digits : public levin::Module {
 public:
  struct Options {
    std::int64_t channels = 16;
    double dropout = 0.25;
    double lr = 0.002;
  };
  explicit Digits(const Options& options) : options_(options) {
    net_ = register_module(
        "net", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, options.channels, 3).padding(1)), nn::ReLU(),
                              nn::Conv2d(nn::Conv2dOptions(options.channels, 2 * options.channels, 3).padding(1)), nn::ReLU(),
                              nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(options.dropout),
                              nn::Linear(2 * options.channels * 4 * 4, 10)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = nn::functional::cross_entropy(net_->forward(batch["features"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = net_->forward(batch["features"]);
    log("val_loss", nn::functional::cross_entropy(scores, batch["label"]), {.prog_bar = true});
    log("val_acc", levin::accuracy(scores, batch["label"]), {.prog_bar = true});
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_acc", levin::accuracy(net_->forward(batch["features"]), batch["label"]));
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    return net_->forward(batch["features"]).argmax(1);
  }

  levin::OptimizerSetups configure_optimizers() override {
    return {levin::AdamW(parameters(), options_.lr),
            levin::OneCycleLr::Options{.max_lr = options_.lr, .total_steps = trainer().estimated_stepping_batches()},
            {.interval = levin::Interval::kStep}};
  }

 private:
  Options options_;
  nn::Sequential net_;
};

int main() {
  return levin::run_main([] {
    levin::seed_everything(42);
    Digits module({});
    levin::TableDataModule data({.path = "examples/digits/data/digits.csv",
                                 .scale = 1.0 / 16,
                                 .shape = {1, 8, 8},
                                 .val_fraction = 0.15,
                                 .test_fraction = 0.15});
    levin::Trainer trainer(
        {.max_epochs = 8,
         .callbacks = {levin::EarlyStopping({.monitor = "val_loss", .patience = 5}),
                       levin::ModelCheckpoint({.monitor = "val_loss", .save_last = true}), levin::LearningRateMonitor()},
         .log_every_n_steps = 10});
    trainer.fit(module, data);
    const auto results = trainer.test(module, data, {.ckpt_path = "best"});
    std::int64_t digits = 0;
    const auto predictions = trainer.predict(module, data);
    for (const auto& batch : predictions[0]) digits += batch.batch_size();
    std::printf("test_acc %.4f of %ld\n", results[0].at("test_acc"), digits);
  });
}
