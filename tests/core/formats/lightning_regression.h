#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/config/registry.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/lr_schedulers.h"
#include "support/fixed_loader.h"
#include "support/recording.h"

namespace levin::test {

/// Files that torch and Lightning have written.
inline const std::filesystem::path kTorchFiles = LEVIN_SOURCE_DIR "/tests/core/formats/data";

inline const std::vector<std::string> kOptimizers = {"SGD",    "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adafactor",
                                                     "Adamax", "ASGD", "Muon",  "NAdam",   "RAdam",   "Rprop"};

/// The module of tests/core/formats/data/make_torch_files.py, with its optimizers.
class LightningRegression : public Module {
 public:
  explicit LightningRegression(std::string optimizer, double lr = 0.05, std::int64_t hidden = 3)
      : optimizer_(std::move(optimizer)), lr_(lr) {
    first_ = register_module("first", torch::nn::Linear(2, hidden));
    second_ = register_module("second", torch::nn::Linear(hidden, 1));
  }
  /// With the weights that it begins with there.
  void begin_alike() {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) {
      parameter.copy_(torch::linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.sizes()));
    }
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    ++batches;
    return (second_->forward(torch::tanh(first_->forward(batch[0]))) - batch[1]).pow(2).mean();
  }
  void test_step(const Batch&, std::int64_t) override {}
  OptimizerSetups configure_optimizers() override {
    const auto made = made_optimizer();
    return {made, std::make_shared<MultiStepLr>(*made, MultiStepLrOptions{.milestones = {2, 2, 3}, .gamma = 0.5})};
  }
  int batches = 0;

 protected:
  std::shared_ptr<torch::optim::Optimizer> made_optimizer() {
    namespace optim = torch::optim;
    std::shared_ptr<optim::Optimizer> made;
    if (optimizer_ == "SGD") made = std::make_shared<optim::SGD>(parameters(), optim::SGDOptions(lr_).momentum(0.9));
    if (optimizer_ == "Adam") made = std::make_shared<optim::Adam>(parameters(), lr_);
    if (optimizer_ == "AdamW") made = std::make_shared<optim::AdamW>(parameters(), lr_);
    if (optimizer_ == "RMSprop") {
      made = std::make_shared<optim::RMSprop>(parameters(), optim::RMSpropOptions(lr_).momentum(0.5).centered(true));
    }
    if (optimizer_ == "Adagrad") made = std::make_shared<optim::Adagrad>(parameters(), lr_);
    if (made == nullptr) {
      std::vector<at::Tensor> trained = parameters();
      if (optimizer_ == "Muon") std::erase_if(trained, [](const at::Tensor& parameter) { return parameter.dim() != 2; });
      made = Registry<OptimizerFactory>::instance().make(Value(optimizer_), Value(Value::Map{{"lr", lr_}}))->make(trained);
    }
    return made;
  }

 private:
  std::string optimizer_;
  double lr_;
  torch::nn::Linear first_{nullptr};
  torch::nn::Linear second_{nullptr};
};

/// Its data, too.
inline std::shared_ptr<FixedLoader> lightning_batches() {
  std::vector<Batch> batches;
  for (int batch = 0; batch < 4; ++batch) {
    const at::Tensor index = torch::arange(2.0) + 2 * batch;
    batches.push_back(Batch{{"x", torch::stack({index / 8, 1 - index / 4}, 1)}, {"y", (index / 4 - 1).unsqueeze(1)}});
  }
  return std::make_shared<FixedLoader>(std::move(batches));
}

/// The largest difference between a module's weights and those of a file.
inline double distance(const Module& module, const std::filesystem::path& file) {
  double largest = 0;
  const TensorFile expected = TensorFile::open(file);
  for (const auto& item : module.named_parameters()) {
    const at::Tensor there = expected.content.tensors.at(item.key());
    largest = std::max(largest, (item.value() - there).abs().max().item<double>());
  }
  return largest;
}

}  // namespace levin::test
