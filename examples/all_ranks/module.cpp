#include <levin/levin.h>

namespace {

/// One linear layer that reads handwritten digits, and logs what each rank sees in all possible ways.
class LinearDigits : public levin::Module {
 public:
  struct Options {
    double lr = 0.5;
    std::int64_t broken_rank = -1;  ///< gets the labels of other images; -1: none
  };

  explicit LinearDigits(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const torch::Tensor loss = loss_of(batch);
    // One column for the mean over ranks, and one for each rank: rank_0_train_loss, rank_1_train_loss, …
    log("train_loss", loss, {.prog_bar = true, .sync_dist = true, .per_rank = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    const torch::Tensor loss = loss_of(batch);
    log("val_loss", loss, {.prog_bar = true});
    // A key of this rank's own, by name: the other ranks log other keys, and no rank waits for another.
    log("rank_" + std::to_string(trainer().rank()) + "_val_loss", loss);
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::SGD(parameters(), options_.lr); }

 private:
  torch::Tensor loss_of(const levin::Batch& batch) {
    torch::Tensor labels = batch["label"];
    if (trainer().rank() == options_.broken_rank) labels = labels.roll(1);
    return torch::nn::functional::cross_entropy(layer_->forward(batch["features"]), labels);
  }

  Options options_;
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(64, 10));
};

LEVIN_REGISTER_MODULE(LinearDigits, "One linear layer that reads handwritten digits");

}  // namespace
