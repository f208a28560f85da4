#include <levin/levin.h>

namespace nn = torch::nn;

class Photos : public levin::Module {
 public:
  struct Options {
    std::int64_t channels = 16;
    double lr = 1e-3;
  };
  explicit Photos(const Options& options) : options_(options) {
    for (const auto& [from, to] : {std::pair(3L, options.channels), {options.channels, 2 * options.channels}}) {
      net_->push_back(nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1)));
      net_->push_back(nn::BatchNorm2d(to));
      net_->push_back(nn::ReLU());
      net_->push_back(nn::MaxPool2d(2));
    }
    net_->push_back(nn::Flatten());
    net_->push_back(nn::Linear(2 * options.channels * 64, 3));
    register_module("net", net_);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::cross_entropy_loss(net_->forward(batch["features"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_acc", net_->forward(batch["features"]).argmax(1).eq(batch["label"]).to(torch::kFloat).mean());
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), options_.lr); }

 private:
  Options options_;
  nn::Sequential net_;
};

int main(int, char** words) {
  levin::seed_everything(1);
  using namespace levin::images;
  levin::ImageFolderDataModule data({.path = words[1],
                                     .val_fraction = 0,
                                     .test_fraction = 0.2,
                                     .train_transforms = {RandomResizedCrop({.size = 32, .scale = {0.7, 1.0}}),
                                                          RandomHorizontalFlip(), ColorJitter({.brightness = 0.2})},
                                     .transforms = {Resize({.size = {32, 32}})},
                                     .batch_transform = MixUp({.alpha = 0.2}),
                                     .batch_size = 18});
  Photos module({});
  levin::Trainer trainer({.max_epochs = 60, .logger = false, .enable_checkpointing = false, .quiet = true});
  trainer.fit(module, data);
  std::printf("test_acc %.4f\n", trainer.test(module, data)[0].at("test_acc"));
}
