#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "support/fixed_loader.h"

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

#define LEVIN_SCRIPTED(hook) \
  void hook() override { run(#hook); }
  LEVIN_SCRIPTED(on_fit_start)
  LEVIN_SCRIPTED(on_train_start)
  LEVIN_SCRIPTED(on_train_epoch_start)
  LEVIN_SCRIPTED(on_train_epoch_end)
  LEVIN_SCRIPTED(on_train_end)
  LEVIN_SCRIPTED(on_fit_end)
  LEVIN_SCRIPTED(on_after_backward)
  LEVIN_SCRIPTED(on_validation_start)
  LEVIN_SCRIPTED(on_validation_epoch_start)
  LEVIN_SCRIPTED(on_validation_epoch_end)
  LEVIN_SCRIPTED(on_validation_end)
  LEVIN_SCRIPTED(on_test_epoch_end)
#undef LEVIN_SCRIPTED
  void on_before_zero_grad(torch::optim::Optimizer&) override { run("on_before_zero_grad"); }
  void on_before_optimizer_step(torch::optim::Optimizer&) override { run("on_before_optimizer_step"); }
  void on_train_batch_start(const Batch&, std::int64_t batch_idx) override { run("on_train_batch_start", batch_idx); }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    run("on_train_batch_end", batch_idx);
  }
  void on_validation_batch_start(const Batch&, std::int64_t batch_idx, std::int64_t) override {
    run("on_validation_batch_start", batch_idx);
  }
  void on_validation_batch_end(const StepOutput&, const Batch&, std::int64_t batch_idx, std::int64_t) override {
    run("on_validation_batch_end", batch_idx);
  }

  std::map<std::string, Script> on;
  std::function<StepOutput(ScriptedLine&, const Batch&, std::int64_t)> step;
  std::function<OptimizerSetups(ScriptedLine&)> optimizers;
  std::vector<double> seen, validated, tested;  ///< the first number of each batch
  at::Tensor weight = register_parameter("weight", torch::zeros({1}, torch::kDouble));

 private:
  void run(const std::string& hook, std::int64_t batch_idx = -1) {
    if (const auto script = on.find(hook); script != on.end()) script->second(*this, batch_idx);
  }
};

/// Batches of one number each: first, first + 1, …
inline std::shared_ptr<FixedLoader> counted(int batches, double first = 1, bool knows_size = true) {
  std::vector<Batch> made;
  for (int index = 0; index < batches; ++index) {
    made.push_back(Batch{{"x", torch::full({1}, first + index, torch::kDouble)}});
  }
  return std::make_shared<FixedLoader>(std::move(made), knows_size);
}

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
