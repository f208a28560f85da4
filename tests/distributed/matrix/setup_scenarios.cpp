// Ranks that were set up differently: found before the first step, and named.
#include <iostream>

#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/model_checkpoint.h"

namespace levin::test {
namespace {

/// The module of all ranks, except for the `difference` on one of them.
class DifferingModule : public Module {
 public:
  explicit DifferingModule(const std::string& difference) {
    const bool double_type = difference == "parameter_type";
    layer_ = register_module(difference == "parameter_name" ? "other" : "layer",
                             torch::nn::Linear(2, difference == "parameter_shape" ? 3 : 1));
    if (difference == "parameter_count") extra_ = register_module("extra", torch::nn::Linear(1, 1));
    if (double_type) layer_->to(torch::kDouble);
    if (difference == "parameter_frozen") layer_->bias.set_requires_grad(false);
    register_buffer("seen", torch::zeros({difference == "buffer_shape" ? 2 : 1}));
    lr_ = difference == "learning_rate" ? 0.2 : 0.1;
    if (difference == "hyperparameters") set_hparams(Value(Value::Map{{"width", Value(7)}}));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    std::cerr << "a training step was taken" << std::endl;
    return layer_->forward(batch[0]).mean();
  }
  void validation_step(const Batch&, std::int64_t) override { std::cerr << "a validation step was taken" << std::endl; }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), lr_); }

 private:
  torch::nn::Linear layer_{nullptr};
  torch::nn::Linear extra_{nullptr};
  double lr_;
};

/// parameters: what is different, on which rank.
void different_setup(Scenario& scenario) {
  const char* rank = std::getenv("RANK");
  const bool odd_one = rank != nullptr && std::string(rank) == scenario.text(1);
  const std::string difference = odd_one ? scenario.text(0) : "nothing";
  TrainerOptions options = scenario.options();
  options.enable_checkpointing = true;
  options.num_sanity_val_steps = 1;
  if (difference == "option") options.accumulate_grad_batches = 3;
  ModelCheckpointOptions saving;
  saving.dirpath = scenario.folder() / (difference == "dirpath" ? "elsewhere" : "here");
  if (difference == "dirpath_unset") saving.dirpath.reset();
  options.callbacks = {std::make_shared<ModelCheckpoint>(saving)};
  const double patience = difference == "callback_option" ? 5 : 2;
  if (difference != "callback_missing") {
    options.callbacks.push_back(std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "val_loss", .patience = static_cast<std::int64_t>(patience), .strict = false}));
  }
  Trainer trainer(options);
  DifferingModule module(difference);
  trainer.fit(module, FixedLoader::of_rows(3, 2), {FixedLoader::of_rows(1, 2)});
  scenario.expect("global_step", trainer.global_step(), 3);
}

}  // namespace

void add_setup_scenarios(Scenarios& scenarios) { scenarios.insert({{"different_setup", different_setup}}); }

}  // namespace levin::test
