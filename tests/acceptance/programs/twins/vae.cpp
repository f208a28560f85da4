#include <levin/levin.h>

#include <fstream>

namespace nn = torch::nn;

class Vae : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 64, latent = 4;
    double beta = 0.5, lr = 0.002;
  };
  explicit Vae(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto [rebuilt, divergence] = losses(batch["features"]);
    log_dict({{"rebuilt", rebuilt}, {"divergence", divergence}}, {.prog_bar = true});
    return rebuilt + options_.beta * divergence;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    const auto [rebuilt, divergence] = losses(batch["features"]);
    log("val_loss", rebuilt + options_.beta * divergence, {.prog_bar = true});
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

  torch::Tensor sample(std::int64_t count) {
    const torch::NoGradGuard no_gradients;
    return decoder_->forward(torch::randn({count, options_.latent}));
  }

 private:
  std::pair<torch::Tensor, torch::Tensor> losses(const torch::Tensor& images) {
    const auto encoded = encoder_->forward(images).chunk(2, 1);
    const auto mean = encoded[0], log_variance = encoded[1];
    const auto code = mean + torch::randn_like(mean) * (0.5 * log_variance).exp();
    const auto rebuilt = torch::binary_cross_entropy(decoder_->forward(code), images, {}, at::Reduction::Sum);
    const auto divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum();
    return {rebuilt / mean.size(0), divergence / mean.size(0)};
  }

  Options options_;
  nn::Sequential encoder_ = register_module(
      "encoder", nn::Sequential(nn::Linear(64, options_.hidden), nn::ReLU(), nn::Linear(options_.hidden, 2 * options_.latent)));
  nn::Sequential decoder_ = register_module("decoder", nn::Sequential(nn::Linear(options_.latent, options_.hidden), nn::ReLU(),
                                                                      nn::Linear(options_.hidden, 64), nn::Sigmoid()));
};

struct SaveSamples : levin::Callback {
  explicit SaveSamples(std::int64_t every_n_epochs) : every_n_epochs(every_n_epochs) {}
  void on_train_epoch_end(levin::Trainer& trainer, levin::Module& module) override {
    if ((trainer.current_epoch() + 1) % every_n_epochs != 0) return;
    const auto rows = dynamic_cast<Vae&>(module).sample(64).view({8, 8, 8, 8}).transpose(1, 2) * 255;
    const auto pixels = rows.to(torch::kByte).contiguous();
    std::ofstream file("samples_" + std::to_string(trainer.current_epoch()) + ".pgm");
    file << "P5 64 64 255\n" << std::string_view(static_cast<const char*>(pixels.const_data_ptr()), 64 * 64);
  }
  std::int64_t every_n_epochs;
};

int main() {
  return levin::run_main([] {
    levin::seed_everything(4);
    Vae module({});
    levin::TableDataModule data({.path = "examples/digits/data/digits.csv", .scale = 1.0 / 16, .test_fraction = 0});
    levin::Trainer trainer({.max_epochs = 10, .logger = false, .callbacks = {SaveSamples(5)}, .enable_checkpointing = false});
    trainer.fit(module, data);
    std::printf("val_loss %.2f\n", trainer.callback_metrics().at("val_loss"));
  });
}
