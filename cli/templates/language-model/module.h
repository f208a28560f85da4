#pragma once

#include <levin/levin.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

/// Texts as numbers: one a byte.
constexpr std::int64_t kSymbols = 256;

inline torch::Tensor to_symbols(const std::string& text) {
  return torch::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())}, torch::kUInt8)
      .to(torch::kLong);
}

inline std::string to_text(const torch::Tensor& symbols) {
  const auto bytes = symbols.to(torch::kCPU, torch::kUInt8).contiguous();
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()), static_cast<std::size_t>(bytes.numel())};
}

/// Windows of a text: `length` symbols, and those that come one later.
class Windows : public levin::SampleDataset {
 public:
  Windows(torch::Tensor symbols, std::int64_t length) : symbols_(std::move(symbols)), length_(length) {}
  std::int64_t size() const override { return std::max<std::int64_t>(0, symbols_.size(0) - length_); }

 protected:
  levin::Batch get_sample(std::int64_t index) const override {
    return {{"symbols", symbols_.narrow(0, index, length_)}, {"next", symbols_.narrow(0, index + 1, length_)}};
  }

 private:
  torch::Tensor symbols_;
  std::int64_t length_;
};

/// What config.yaml may say under `data: init_args:`.
struct @CLASS @DataOptions {
  std::filesystem::path path;
  std::int64_t length = 48;
  std::int64_t batch_size = 32;
  std::string prompt = "The Walrus";

  static void declare(levin::OptionList<@CLASS @DataOptions> & options) {
    options.add("path", &@CLASS @DataOptions::path, "The text to learn").input_file().required();
    options.add("length", &@CLASS @DataOptions::length, "Characters in a sample").min(1);
    options.add("batch_size", &@CLASS @DataOptions::batch_size, "Samples in a batch").min(1);
    options.add("prompt", &@CLASS @DataOptions::prompt, "`levin predict` goes on from it").not_empty();
  }
};

/// A text file: the last tenth is kept for validation.
class @CLASS @Data : public levin::DataModule {
 public:
  using Options = @CLASS @DataOptions;
  explicit @CLASS @Data(const Options& options) : options_(options) {}

  void setup(levin::Stage) override {
    std::ifstream file(options_.path, std::ios::binary);
    symbols_ = to_symbols({std::istreambuf_iterator<char>(file), {}});
  }
  levin::LoaderPtr train_dataloader() override { return make_loader(symbols_.narrow(0, 0, train_size()), /*shuffle=*/true); }
  levin::LoaderList val_dataloaders() override {
    return {make_loader(symbols_.narrow(0, train_size(), symbols_.size(0) - train_size()), /*shuffle=*/false)};
  }
  levin::LoaderList predict_dataloaders() override {
    const levin::Batch prompt = {{"symbols", to_symbols(options_.prompt).unsqueeze(0)}};
    return {std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(prompt))};
  }

 private:
  std::int64_t train_size() const { return symbols_.size(0) * 9 / 10; }
  levin::LoaderPtr make_loader(const torch::Tensor& symbols, bool shuffle) const {
    return std::make_shared<levin::DataLoader>(std::make_shared<Windows>(symbols, options_.length),
                                               levin::DataLoaderOptions{.batch_size = options_.batch_size, .shuffle = shuffle});
  }

  Options options_;
  torch::Tensor symbols_;
};

/// What config.yaml may say under `model: init_args:`.
struct @CLASS @Options {
  std::int64_t width = 96;
  double lr = 0.003;
  std::int64_t generated = 200;
  double temperature = 0.6;

  static void declare(levin::OptionList<@CLASS @Options> & options) {
    options.add("width", &@CLASS @Options::width, "Width of the recurrent layer").min(1);
    options.add("lr", &@CLASS @Options::lr, "Learning rate of AdamW").above(0);
    options.add("generated", &@CLASS @Options::generated, "Characters that `levin predict` writes").min(1);
    options.add("temperature", &@CLASS @Options::temperature, "Higher: more surprising").above(0);
  }
};

/// Predicts the next character of a text, and so writes one.
class @CLASS @ : public levin::Module {
 public:
  using Options = @CLASS @Options;
  explicit @CLASS @(const Options& options) : options_(options) {
    using namespace torch::nn;
    embedding_ = register_module("embedding", Embedding(kSymbols, options.width));
    recurrent_ = register_module("recurrent", GRU(GRUOptions(options.width, options.width).batch_first(true)));
    output_ = register_module("output", Linear(options.width, kSymbols));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = loss_of(batch);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  levin::StepOutput validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", loss_of(batch), {.prog_bar = true});
    return {};
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    torch::Tensor symbols = batch["symbols"];
    auto [scores, state] = forward(symbols);
    for (std::int64_t written = 0; written < options_.generated; ++written) {
      const auto next = torch::softmax(scores.select(1, -1) / options_.temperature, 1).multinomial(1);
      symbols = torch::cat({symbols, next}, 1);
      std::tie(scores, state) = forward(next, state);
    }
    for (const auto& text : symbols.unbind(0)) levin::rank_zero_info(to_text(text));
    return {{"symbols", symbols}};
  }

  levin::OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::AdamW>(parameters(), options_.lr);
  }

 private:
  /// The scores of each next character, and the state to go on from.
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& symbols, const torch::Tensor& state = {}) {
    auto [features, next_state] = recurrent_->forward(embedding_->forward(symbols), state);
    return {output_->forward(features), next_state};
  }

  torch::Tensor loss_of(const levin::Batch& batch) {
    const auto scores = std::get<0>(forward(batch["symbols"]));
    return torch::nn::functional::cross_entropy(scores.flatten(0, 1), batch["next"].flatten());
  }

  Options options_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::GRU recurrent_{nullptr};
  torch::nn::Linear output_{nullptr};
};
