#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

namespace levin::test {

/// Trains one linear layer. Logs `val_loss` from a list, one entry a validation (the last one stays), and the number of the
/// batch as `train_step`.
class ScriptedModule : public Module {
 public:
  explicit ScriptedModule(std::vector<double> scores = {}) : scores_(std::move(scores)) {
    layer_ = register_module("layer", torch::nn::Linear(2, 1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const std::int64_t number = trainer().total_batch_idx();
    if (number == throw_at_batch) throw std::runtime_error("scripted failure");
    log("train_step", static_cast<double>(number), {.prog_bar = true});
    return layer_->forward(batch[0]).mean();
  }
  void validation_step(const Batch&, std::int64_t) override {}
  void test_step(const Batch&, std::int64_t) override { log("test_loss", 0.25, {.prog_bar = true}); }
  void on_validation_epoch_end() override {
    if (trainer().sanity_checking() || scores_.empty()) return;
    log("val_loss", scores_[std::min(validations_++, scores_.size() - 1)], {.prog_bar = true});
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.01); }

  std::int64_t throw_at_batch = -1;

 private:
  std::vector<double> scores_;
  std::size_t validations_ = 0;
  torch::nn::Linear layer_{nullptr};
};

/// Options of a run that prints and writes nothing of its own.
inline TrainerOptions quiet_options(std::int64_t max_epochs) {
  TrainerOptions options;
  options.max_epochs = max_epochs;
  options.accelerator = "cpu";
  options.logger = false;
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  return options;
}

/// A run in a folder of its own, without checkpoints unless callbacks write them.
struct ScriptedRun {
  explicit ScriptedRun(std::int64_t max_epochs, std::vector<std::shared_ptr<Callback>> callbacks = {}) {
    options = quiet_options(max_epochs);
    options.default_root_dir = folder.path();
    options.enable_checkpointing = false;
    for (auto& callback : callbacks) options.callbacks.push_back(std::move(callback));
  }
  /// Fits a module on so many batches, and gives the Trainer.
  std::unique_ptr<Trainer> fit(Module& module, std::int64_t batches = 2, LoaderList validation = {}) const {
    auto trainer = std::make_unique<Trainer>(options);
    trainer->fit(module, FixedLoader::of_rows(batches, 1), std::move(validation));
    return trainer;
  }

  TemporaryFolder folder;
  TrainerOptions options;
};

/// A regression on so many samples of two inputs, as in make_finder_references.py and others here.
inline LoaderPtr waves(std::int64_t samples, std::int64_t batch_size, bool shuffle = false) {
  const at::Tensor index = torch::arange(samples, torch::kDouble);
  const at::Tensor first = index.sin(), second = (2 * index).cos();
  const Batch data{{"inputs", torch::stack({first, second}, 1)}, {"targets", (first - 2 * second + 0.5).unsqueeze(1)}};
  return DataLoader(std::make_shared<TensorDataset>(data), {.batch_size = batch_size, .shuffle = shuffle});
}

/// The numbers of a list in a reference file, or of a tensor.
inline std::vector<double> numbers_in(const Value& list) {
  std::vector<double> numbers;
  for (const Value& number : list.as_list()) numbers.push_back(number.as_double());
  return numbers;
}
inline std::vector<double> numbers_in(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(torch::kDouble).flatten().contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

/// The names of what a folder holds.
inline std::set<std::string> file_names(const std::filesystem::path& folder) {
  std::set<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace levin::test
