#include <levin/levin.h>

namespace nn = torch::nn;

struct Windows : levin::SampleDataset {
  Windows(const torch::Tensor& series, std::int64_t length) : series_(series), length_(length) {}
  std::int64_t size() const override { return series_.size(0) - length_; }
  levin::Batch get_sample(std::int64_t index) const override {
    return {{"window", series_.narrow(0, index, length_).unsqueeze(1)}, {"next", series_[index + length_]}};
  }

  torch::Tensor series_;
  std::int64_t length_;
};

class Forecaster : public levin::Module {
 public:
  struct Options {
    std::int64_t width = 32;
    double lr = 0.01;
  };
  explicit Forecaster(const Options& options) : options_(options) {}

  torch::Tensor forward(const torch::Tensor& window) {
    return head_->forward(std::get<0>(rnn_->forward(window)).select(1, -1)).squeeze(1);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(forward(batch["window"]), batch["next"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::l1_loss(forward(batch["window"]), batch["next"]), {.prog_bar = true});
  }

  levin::OptimizerSetups configure_optimizers() override {
    return {levin::Adam(parameters(), options_.lr), levin::ReduceLrOnPlateau::Options{.patience = 1}, {.monitor = "val_loss"}};
  }

 private:
  Options options_;
  nn::GRU rnn_ = register_module("rnn", nn::GRU(nn::GRUOptions(1, options_.width).batch_first(true)));
  nn::Linear head_ = register_module("head", nn::Linear(options_.width, 1));
};

int main() {
  return levin::run_main([] {
    levin::seed_everything(3);
    const auto time = torch::arange(2000) / 10;
    const auto series = time.sin() + 0.5 * (3 * time).cos() + 0.05 * torch::randn(2000);
    Forecaster module({});
    levin::Trainer trainer({.max_epochs = 5, .gradient_clip_val = 1.0});
    trainer.fit(module,
                levin::DataLoader(Windows(series.slice(0, 0, 1600), 24), {.batch_size = 64, .shuffle = true, .num_workers = 2}),
                levin::DataLoader(Windows(series.slice(0, 1600), 24), {.batch_size = 64}));
    std::printf("val_loss %.4f\n", trainer.callback_metrics().at("val_loss"));
  });
}
