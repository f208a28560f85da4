#include <levin/levin.h>

namespace nn = torch::nn;

class Reader : public levin::Module {
 public:
  struct Options {
    std::int64_t classes = 10;
    std::optional<std::string> weights = {};
    std::int64_t unfreeze_epoch = 2;
    double lr = 0.005;
  };
  explicit Reader(const Options& options) : options_(options) {
    if (!options.weights) return;
    levin::load_weights(*backbone_, *options.weights, {.prefix = "backbone."});
    levin::freeze(*backbone_);
  }

  void on_train_epoch_start() override {
    if (current_epoch() == options_.unfreeze_epoch) levin::unfreeze(*backbone_);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    return nn::functional::cross_entropy(head_->forward(backbone_->forward(batch["image"])), batch["label"]);
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_acc", levin::accuracy(head_->forward(backbone_->forward(batch["image"])), batch["label"]));
  }

  levin::OptimizerSetups configure_optimizers() override {
    const std::vector<torch::optim::OptimizerParamGroup> groups = {
        head_->parameters(), {backbone_->parameters(), std::make_unique<levin::AdamWOptions>(options_.lr / 5)}};
    return levin::AdamW(groups, options_.lr);
  }

 private:
  Options options_;
  nn::Sequential backbone_ = register_module("backbone", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)),
                                                                        nn::ReLU(), nn::MaxPool2d(2), nn::Flatten()));
  nn::Linear head_ = register_module("head", nn::Linear(256, options_.classes));
};

void fit(levin::Trainer& trainer, Reader& module, const torch::Tensor& images, const torch::Tensor& labels) {
  const auto parts =
      levin::random_split(levin::TensorDataset({{"image", images}, {"label", labels}}), std::vector<double>{0.8, 0.2}, 1);
  trainer.fit(module, levin::DataLoader(parts[0], {.batch_size = 32, .shuffle = true}),
              levin::DataLoader(parts[1], {.batch_size = 32}));
}

int main() {
  return levin::run_main([] {
    levin::seed_everything(5);
    const auto rows = levin::read_csv("examples/digits/data/digits.csv").values.to(torch::kFloat);
    const auto images = rows.slice(1, 0, -1).reshape({-1, 1, 8, 8}) / 16, labels = rows.select(1, -1).to(torch::kLong);
    const auto low = labels < 5;
    levin::Trainer first({.max_epochs = 4, .logger = false});
    Reader pretrained({.classes = 5});
    fit(first, pretrained, images.index({low}), labels.index({low}));
    first.save_checkpoint("low.ckpt");
    levin::Trainer trainer({.max_epochs = 4, .logger = false});
    Reader module({.classes = 5, .weights = "low.ckpt"});
    fit(trainer, module, images.index({~low}), labels.index({~low}) - 5);
    std::printf("val_acc %.4f\n", trainer.callback_metrics().at("val_acc"));
  });
}
