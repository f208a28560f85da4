#include <levin/levin.h>

namespace nn = torch::nn;

/// Reads digits: convolutions that may come from another run, and a head that is always new.
class Transfer : public levin::Module {
 public:
  struct Options {
    std::optional<std::filesystem::path> weights;
    std::int64_t unfreeze_epoch = 3;  ///< the first that trains a backbone of weights
    double lr = 0.002;

    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::weights, "Checkpoint to take the backbone from; null: from scratch").input_file();
    }
  };

  explicit Transfer(const Options& options) : options_(options) {
    backbone_ = register_module("backbone", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::ReLU(),
                                                           nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)), nn::ReLU(),
                                                           nn::MaxPool2d(2), nn::Flatten()));
    head_ = register_module("head", nn::Linear(32 * 4 * 4, 10));
  }

  void setup(levin::Stage stage) override {
    if (stage != levin::Stage::kTrain || !options_.weights) return;
    levin::load_weights(*backbone_, *options_.weights, {.prefix = "backbone."});
    levin::freeze(*backbone_);
  }

  void on_train_epoch_start() override {
    if (current_epoch() == options_.unfreeze_epoch) levin::unfreeze(*backbone_);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = nn::functional::cross_entropy(scores(batch), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_acc", levin::accuracy(scores(batch), batch["label"]), {.prog_bar = true});
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

 private:
  torch::Tensor scores(const levin::Batch& batch) { return head_->forward(backbone_->forward(batch["features"])); }

  Options options_;
  nn::Sequential backbone_;
  nn::Linear head_ = nullptr;
};

LEVIN_REGISTER_MODULE(Transfer, "Reads digits with convolutions that may come from another run");
