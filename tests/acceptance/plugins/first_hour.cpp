// The module of docs/first-hour.md.
#include <levin/levin.h>

#include <cstdint>

/// Predicts the period of a pendulum. Layers of equal width; each adds to what the one before it gives.
class Pendulum : public levin::Module {
 public:
  struct Options {
    std::int64_t features = 3;
    std::int64_t hidden = 32;
    std::int64_t layers = 3;
    double lr = 0.01;

    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::layers, "Number of hidden layers").min(1);
      options.add(&Options::lr, "Learning rate of AdamW").above(0);
    }
  };
  explicit Pendulum(const Options& options) : options_(options) {
    using torch::nn::Linear;
    first_ = register_module("first", Linear(options.features, options.hidden));
    layers_ = register_module("layers", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < options.layers; ++i) layers_->push_back(Linear(options.hidden, options.hidden));
    last_ = register_module("last", Linear(options.hidden, 1));
  }

  torch::Tensor forward(const torch::Tensor& features) {
    torch::Tensor x = first_->forward(features);
    for (const auto& layer : *layers_) x = x + torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return last_->forward(x).squeeze(1);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(forward(batch["features"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(forward(batch["features"]), batch["label"]), {.prog_bar = true});
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_error", torch::l1_loss(forward(batch["features"]), batch["label"]));
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    return {{"period", forward(batch["features"])}};
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), options_.lr); }

 private:
  Options options_;
  torch::nn::Linear first_ = nullptr, last_ = nullptr;
  torch::nn::ModuleList layers_;
};

LEVIN_REGISTER_MODULE(Pendulum, "Predicts the period of a pendulum");
