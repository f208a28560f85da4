#include <levin/levin.h>

namespace {

struct LinearDigitsOptions {
  double lr = 0.5;
  std::int64_t broken_rank = -1;

  static void declare(levin::OptionList<LinearDigitsOptions>& options) {
    options.add("lr", &LinearDigitsOptions::lr, "Learning rate of SGD").min(0);
    options.add("broken_rank", &LinearDigitsOptions::broken_rank, "This rank gets the labels of other images; -1: none")
        .min(-1);
  }
};

/// One linear layer that reads handwritten digits, and logs what each rank sees in the ways there are.
class LinearDigits : public levin::Module {
 public:
  using Options = LinearDigitsOptions;

  explicit LinearDigits(const LinearDigitsOptions& options)
      : options_(options), layer_(register_module("layer", torch::nn::Linear(64, 10))) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const torch::Tensor loss = loss_of(batch);
    // One column for the mean over ranks, and one for each rank: rank_0_train_loss, rank_1_train_loss, …
    log("train_loss", loss, {.prog_bar = true, .sync_dist = true, .per_rank = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    const torch::Tensor loss = loss_of(batch);
    log("val_loss", loss, {.prog_bar = true});
    // A key of this rank's own, by name: the other ranks log other keys, and nobody waits for anybody.
    log("rank_" + std::to_string(trainer().rank()) + "_val_loss", loss);
  }

  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<levin::SGD>(parameters(), options_.lr); }

 private:
  torch::Tensor loss_of(const levin::Batch& batch) {
    torch::Tensor labels = batch["label"];
    if (trainer().rank() == options_.broken_rank) labels = labels.roll(1);
    return torch::nn::functional::cross_entropy(layer_->forward(batch["features"]), labels);
  }

  LinearDigitsOptions options_;
  torch::nn::Linear layer_;
};

LEVIN_REGISTER_MODULE(LinearDigits, "One linear layer that reads handwritten digits");

}  // namespace
