#pragma once

#include <levin/levin.h>

#include <cmath>
#include <cstdint>
#include <memory>

/// What config.yaml may say under `data: init_args:`.
struct @CLASS @DataOptions {
  std::int64_t classes = 3;
  std::int64_t batch_size = 64;

  static void declare(levin::OptionList<@CLASS @DataOptions> & options) {
    options.add("classes", &@CLASS @DataOptions::classes, "Number of spirals, each a class").min(2);
    options.add("batch_size", &@CLASS @DataOptions::batch_size, "Samples in a batch").min(1);
  }
};

/// Points on spirals, which no straight line divides. Put your own data in place of make_points(): a batch is a list of named
/// tensors whose first dimension is the sample.
class @CLASS @Data : public levin::DataModule {
 public:
  using Options = @CLASS @DataOptions;
  explicit @CLASS @Data(const Options& options) : options_(options) {}

  levin::LoaderPtr train_dataloader() override { return make_loader(0, /*shuffle=*/true); }
  levin::LoaderList val_dataloaders() override { return {make_loader(1, /*shuffle=*/false)}; }
  levin::LoaderList test_dataloaders() override { return {make_loader(2, /*shuffle=*/false)}; }
  levin::LoaderList predict_dataloaders() override { return {make_loader(2, /*shuffle=*/false)}; }

 private:
  levin::LoaderPtr make_loader(std::uint64_t seed, bool shuffle) const {
    auto dataset = std::make_shared<levin::TensorDataset>(make_points(seed, 300));
    return std::make_shared<levin::DataLoader>(dataset,
                                               levin::DataLoaderOptions{.batch_size = options_.batch_size, .shuffle = shuffle});
  }

  levin::Batch make_points(std::uint64_t seed, std::int64_t points_a_class) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const auto label = torch::arange(options_.classes).repeat(points_a_class);
    const auto radius = torch::rand({label.size(0)}, generator);
    const auto noise = 0.1 * torch::randn({label.size(0)}, generator);
    const auto angle = 4 * radius + 2 * M_PI / static_cast<double>(options_.classes) * label + noise;
    return {{"point", torch::stack({radius * angle.cos(), radius * angle.sin()}, 1)}, {"label", label}};
  }

  Options options_;
};

/// What config.yaml may say under `model: init_args:`.
struct @CLASS @Options {
  std::int64_t classes = 3;
  std::int64_t hidden = 64;
  double lr = 0.01;

  static void declare(levin::OptionList<@CLASS @Options> & options) {
    options.add("classes", &@CLASS @Options::classes, "Number of classes").min(2).linked_to("data.classes");
    options.add("hidden", &@CLASS @Options::hidden, "Width of the hidden layers").min(1);
    options.add("lr", &@CLASS @Options::lr, "Learning rate of AdamW").above(0);
  }
};

/// Says which class a point is of.
class @CLASS @ : public levin::Module {
 public:
  using Options = @CLASS @Options;
  explicit @CLASS @(const Options& options) : options_(options) {
    using torch::nn::Linear, torch::nn::ReLU;
    net_ =
        register_module("net", torch::nn::Sequential(Linear(2, options.hidden), ReLU(), Linear(options.hidden, options.hidden),
                                                     ReLU(), Linear(options.hidden, options.classes)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::nn::functional::cross_entropy(net_->forward(batch["point"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  levin::StepOutput validation_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = net_->forward(batch["point"]);
    log("val_loss", torch::nn::functional::cross_entropy(scores, batch["label"]), {.prog_bar = true});
    log("val_acc", accuracy(scores, batch["label"]), {.prog_bar = true});
    return {};
  }

  levin::StepOutput test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_acc", accuracy(net_->forward(batch["point"]), batch["label"]));
    return {};
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    return {{"label", net_->forward(batch["point"]).argmax(1)}};
  }

  levin::OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::AdamW>(parameters(), options_.lr);
  }

 private:
  static torch::Tensor accuracy(const torch::Tensor& scores, const torch::Tensor& label) {
    return scores.argmax(1).eq(label).to(torch::kFloat).mean();
  }

  Options options_;
  torch::nn::Sequential net_;
};
