#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/data_module.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "support/fixed_loader.h"
#include "support/hook_list.h"

namespace levin::test {

/// Learns one weight with loss = mean(weight * x): a step with rate 1 subtracts the mean of the batch, so every number can be
/// computed by hand. A test acts in a hook through a function under the hook's name; the second argument is the number of the
/// batch, or -1.
class ScriptedLine : public Module {
 public:
  using Script = std::function<void(ScriptedLine&, std::int64_t)>;

  at::Tensor loss_of(const Batch& batch) const { return (weight * batch[0]).mean(); }
  double value() const { return weight.item<double>(); }

  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    seen.push_back(batch[0].flatten()[0].item<double>());
    run("training_step", batch_idx);
    if (step) return step(*this, batch, batch_idx);
    return loss_of(batch);
  }
  void validation_step(const Batch& batch, std::int64_t batch_idx) override {
    validated.push_back(batch[0].flatten()[0].item<double>());
    run("validation_step", batch_idx);
  }
  void test_step(const Batch& batch, std::int64_t batch_idx) override {
    tested.push_back(batch[0].flatten()[0].item<double>());
    run("test_step", batch_idx);
  }
  Batch predict_step(const Batch& batch, std::int64_t batch_idx) override {
    run("predict_step", batch_idx);
    return batch[0] * 2;
  }
  OptimizerSetups configure_optimizers() override {
    if (optimizers) return optimizers(*this);
    return std::make_shared<torch::optim::SGD>(parameters(), 1.0);
  }
  std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return callbacks; }

#define LEVIN_SCRIPTED(hook, ...) \
  void hook(__VA_ARGS__) override { run(#hook); }
#define LEVIN_SCRIPTED_BATCH(hook, ...) \
  void hook(__VA_ARGS__) override { run(#hook, batch_idx); }
  LEVIN_RUN_HOOKS(LEVIN_SCRIPTED)
  LEVIN_BATCH_HOOKS(LEVIN_SCRIPTED_BATCH)
#undef LEVIN_SCRIPTED
#undef LEVIN_SCRIPTED_BATCH

  std::map<std::string, Script> on;
  std::function<StepOutput(ScriptedLine&, const Batch&, std::int64_t)> step;
  std::function<OptimizerSetups(ScriptedLine&)> optimizers;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::vector<double> seen, validated, tested;  ///< the first number of each batch
  at::Tensor weight = register_parameter("weight", torch::zeros({1}, torch::kDouble));

 private:
  void run(const std::string& hook, std::int64_t batch_idx = -1) {
    if (const auto script = on.find(hook); script != on.end()) script->second(*this, batch_idx);
  }
};

/// A batch for each number.
inline std::shared_ptr<FixedLoader> numbered(const std::vector<double>& numbers, bool knows_size = true) {
  std::vector<Batch> made;
  for (const double number : numbers) made.push_back(Batch{{"x", torch::full({1}, number, torch::kDouble)}});
  return std::make_shared<FixedLoader>(std::move(made), knows_size);
}

/// Batches of one number each: first, first + 1, …
inline std::shared_ptr<FixedLoader> counted(int batches, double first = 1, bool knows_size = true) {
  std::vector<double> numbers;
  for (int index = 0; index < batches; ++index) numbers.push_back(first + index);
  return numbered(numbers, knows_size);
}

/// Gives two batches for each stage, and notes which loaders it is asked for: "train val ".
struct AskedData : DataModule {
  LoaderPtr train_dataloader() override { return made("train"); }
  LoaderList val_dataloaders() override { return made("val"); }
  LoaderList test_dataloaders() override { return made("test"); }
  LoaderList predict_dataloaders() override { return made("predict"); }
  LoaderPtr made(const std::string& stage) {
    asked += stage + " ";
    if (on_ask) on_ask(stage);
    return counted(2);
  }
  std::string asked;
  std::function<void(const std::string& stage)> on_ask;
};

/// Stores its rows.
struct RowsOf final : Logger {
  void log_metrics(const MetricRow& row) override { rows.push_back(row); }
  /// The rows that have this value: epoch, step, value.
  std::vector<std::vector<double>> of(const std::string& name) const {
    std::vector<std::vector<double>> found;
    for (const MetricRow& row : rows) {
      if (row.values.contains(name)) {
        found.push_back({static_cast<double>(row.epoch), static_cast<double>(row.step), row.values.at(name)});
      }
    }
    return found;
  }
  std::vector<MetricRow> rows;
};

}  // namespace levin::test
