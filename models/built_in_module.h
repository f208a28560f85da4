#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"

// Modules for a YAML alone: small networks for tables and images, of batches with "features" and "label" as TableDataModule
// gives them. A beginning and a baseline. Their optimizer is AdamW, unless the YAML has an `optimizer:`.
namespace levin {

/// The base of built-in modules. Sizes that options leave out are those of the data (DataModule::facts()): the network
/// is then made in configure_model(), and hyper-parameters, which checkpoints have, name the sizes. Logs train_loss, val_loss
/// and test_loss.
class LEVIN_API BuiltInModule : public Module {
 public:
  /// The network's output for features [N, …]. Throws MisuseError where a sample has another number of them than the network
  /// is made for.
  virtual at::Tensor forward(const at::Tensor& features);
  /// Throws ConfigError where a size is neither given nor known of the data.
  void configure_model() override;
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override;
  void validation_step(const Batch& batch, std::int64_t batch_idx) override;
  void test_step(const Batch& batch, std::int64_t batch_idx) override;
  OptimizerSetups configure_optimizers() override;

 protected:
  explicit BuiltInModule(double lr) : lr_(lr) {}
  /// Makes the network, with sizes of these facts where they are not given. Throws as configure_model().
  virtual void make(const DataFacts& facts) = 0;
  /// Called: by make(). `shape`: of a sample, as the network takes it.
  void set_network(std::vector<std::int64_t> shape, torch::nn::Sequential network);
  /// forward() of a batch, in 32 bits or more.
  at::Tensor output(const Batch& batch);
  /// A mean over samples; `given` is such an output.
  virtual at::Tensor loss(const at::Tensor& given, const Batch& batch) = 0;
  /// Logs what else is said of an evaluation, under names that begin with `stage`: "val" or "test".
  virtual void log_score(const std::string& /*stage*/, const at::Tensor& /*given*/, const Batch&) {}

 private:
  void evaluate(const std::string& stage, const Batch& batch);

  double lr_;
  std::vector<std::int64_t> shape_;
  torch::nn::Sequential network_ = nullptr;
};

}  // namespace levin
