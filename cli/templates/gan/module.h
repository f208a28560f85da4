#pragma once

#include <levin/levin.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

/// What config.yaml may say under `data: init_args:`.
struct @CLASS @DataOptions {
  std::int64_t samples = 4096;
  std::int64_t batch_size = 128;

  static void declare(levin::OptionList<@CLASS @DataOptions> & options) {
    options.add("samples", &@CLASS @DataOptions::samples, "Samples in an epoch").min(1);
    options.add("batch_size", &@CLASS @DataOptions::batch_size, "Samples in a batch").min(1);
  }
};

/// Points on a ring. Put your own data in place of it.
class @CLASS @Data : public levin::DataModule {
 public:
  using Options = @CLASS @DataOptions;
  explicit @CLASS @Data(const Options& options) : options_(options) {}

  levin::LoaderPtr train_dataloader() override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(0);
    const auto angle = 2 * M_PI * torch::rand({options_.samples}, generator);
    const auto radius = 1 + 0.05 * torch::randn({options_.samples}, generator);
    const auto points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
    auto dataset = std::make_shared<levin::TensorDataset>(levin::Batch{{"point", points}});
    return std::make_shared<levin::DataLoader>(dataset,
                                               levin::DataLoaderOptions{.batch_size = options_.batch_size, .shuffle = true});
  }
  /// As many noise vectors as `levin predict` makes points.
  levin::LoaderList predict_dataloaders() override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    const levin::Batch noise = {{"noise", torch::randn({256, kNoise}, generator)}};
    return {std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(noise),
                                                levin::DataLoaderOptions{.batch_size = options_.batch_size})};
  }

  static constexpr std::int64_t kNoise = 4;  ///< numbers that the generator makes a point of

 private:
  Options options_;
};

/// What config.yaml may say under `model: init_args:`.
struct @CLASS @Options {
  std::int64_t hidden = 64;
  double lr = 0.001;

  static void declare(levin::OptionList<@CLASS @Options> & options) {
    options.add("hidden", &@CLASS @Options::hidden, "Width of the hidden layers").min(1);
    options.add("lr", &@CLASS @Options::lr, "Learning rate of both optimizers").above(0);
  }
};

/// A generator that makes points of noise, and a discriminator that tells them from real ones: two optimizers, stepped by hand.
class @CLASS @ : public levin::Module {
 public:
  using Options = @CLASS @Options;
  explicit @CLASS @(const Options& options) : options_(options) {
    using torch::nn::Linear, torch::nn::LeakyReLU;
    const std::int64_t hidden = options.hidden;
    generator_ = register_module("generator", torch::nn::Sequential(Linear(@CLASS @Data::kNoise, hidden), LeakyReLU(),
                                                                    Linear(hidden, hidden), LeakyReLU(), Linear(hidden, 2)));
    discriminator_ = register_module(
        "discriminator",
        torch::nn::Sequential(Linear(2, hidden), LeakyReLU(), Linear(hidden, hidden), LeakyReLU(), Linear(hidden, 1)));
    set_automatic_optimization(false);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto real = batch["point"];
    const auto made = generator_->forward(torch::randn({ real.size(0), @CLASS @Data::kNoise }, real.options()));

    optimizer(kDiscriminator).zero_grad();
    const auto discriminator_loss = (loss_of(real, true) + loss_of(made.detach(), false)) / 2;
    manual_backward(discriminator_loss);
    step_optimizer(kDiscriminator);

    optimizer(kGenerator).zero_grad();
    const auto generator_loss = loss_of(made, true);
    manual_backward(generator_loss);
    step_optimizer(kGenerator);

    log("d_loss", discriminator_loss, {.prog_bar = true});
    log("g_loss", generator_loss, {.prog_bar = true});
    log("radius", made.detach().norm(2, 1).mean(), {.prog_bar = true});
    return {};
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    return {{"point", generator_->forward(batch["noise"])}};
  }

  levin::OptimizerSetups configure_optimizers() override {
    const auto options = torch::optim::AdamOptions(options_.lr).betas({0.5, 0.999});
    return std::vector<levin::OptimizerSetup>{{std::make_shared<torch::optim::Adam>(generator_->parameters(), options)},
                                              {std::make_shared<torch::optim::Adam>(discriminator_->parameters(), options)}};
  }

 private:
  static constexpr std::size_t kGenerator = 0, kDiscriminator = 1;  // in the order of configure_optimizers

  /// How wrong the discriminator is about points that should pass as real, or not.
  torch::Tensor loss_of(const torch::Tensor& points, bool real) {
    const auto scores = discriminator_->forward(points);
    return torch::binary_cross_entropy_with_logits(scores, torch::full_like(scores, real ? 1.0 : 0.0));
  }

  Options options_;
  torch::nn::Sequential generator_, discriminator_;
};
