#include <levin/levin.h>

namespace {

/// Predicts the compressive strength of concrete from its ingredients and its age.
class Strength : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 64;  ///< width of the two hidden layers
  };

  explicit Strength(const Options& options) {
    using torch::nn::Linear, torch::nn::ReLU;
    net_ =
        register_module("net", torch::nn::Sequential(Linear(8, options.hidden), ReLU(), Linear(options.hidden, options.hidden),
                                                     ReLU(), Linear(options.hidden, 1)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::mse_loss(strength(batch), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", torch::mse_loss(strength(batch), batch["label"]), {.prog_bar = true});
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_mse", torch::mse_loss(strength(batch), batch["label"]));
    log("test_mae", torch::l1_loss(strength(batch), batch["label"]));
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override { return {{"strength", strength(batch)}}; }

 private:
  torch::Tensor strength(const levin::Batch& batch) { return net_->forward(batch["features"]).squeeze(1); }

  torch::nn::Sequential net_;
};

LEVIN_REGISTER_MODULE(Strength, "Predicts the compressive strength of concrete");

}  // namespace
