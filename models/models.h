#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"

// Modules for a YAML alone: small networks for tables and images, of batches with "features" and "label" as TableDataModule
// gives them. A beginning and a baseline. Their optimizer is AdamW, unless the YAML has an `optimizer:`.
namespace levin {

/// What they have in common. Sizes that options leave out are those of the data (DataModule::facts()): the network is then made
/// in configure_model(), and hyper-parameters, which checkpoints have, name the sizes. Logs train_loss, val_loss and test_loss.
class LEVIN_API BuiltInModule : public Module {
 public:
  /// What the network gives for features [N, …]. Throws MisuseError where a sample has another number of them than the network
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

/// Says which class a sample is of: cross entropy as the loss; val_acc and test_acc; predictions "label" and the "probability"
/// of each class. forward() gives scores [N, classes]. Throws MisuseError for labels that are none of its classes.
class LEVIN_API Classifier : public BuiltInModule {
 public:
  Batch predict_step(const Batch& batch, std::int64_t batch_idx) override;

 protected:
  using BuiltInModule::BuiltInModule;
  at::Tensor loss(const at::Tensor& given, const Batch& batch) override;
  void log_score(const std::string& stage, const at::Tensor& given, const Batch& batch) override;
};

/// A classifier of fully connected layers with ReLU. Features may have any shape.
class LEVIN_API MLPClassifier : public Classifier {
 public:
  struct LEVIN_API Options {
    std::optional<std::int64_t> inputs = {};       ///< numbers of a sample
    std::optional<std::int64_t> classes = {};      ///< labels are from 0 on
    std::vector<std::int64_t> hidden = {128, 64};  ///< widths of the layers between; none: logistic regression
    double dropout = 0.0;
    double lr = 1e-3;
    static void declare(OptionList<Options>& options);
  };
  explicit MLPClassifier(const Options& options);

 protected:
  void make(const DataFacts& facts) override;

 private:
  Options options_;
};

/// A classifier of images: convolutions of 3 × 3 with batch normalization and ReLU, each of which halves height and width, and
/// a layer over what is left of the image. Features may be flat.
class LEVIN_API ConvClassifier : public Classifier {
 public:
  struct LEVIN_API Options {
    std::vector<std::int64_t> shape = {};  ///< of an image: channels, height, width
    std::optional<std::int64_t> classes = {};
    std::vector<std::int64_t> widths = {32, 64};  ///< channels of the convolutions
    double dropout = 0.25;                        ///< before the last layer
    double lr = 1e-3;
    static void declare(OptionList<Options>& options);
  };
  explicit ConvClassifier(const Options& options);

 protected:
  void make(const DataFacts& facts) override;

 private:
  Options options_;
};

/// Predicts a number of each sample, by fully connected layers with ReLU. Their output is scaled by mean and deviation of the
/// training data's labels, which stand among the weights ("label_scale"), and the loss is the squared error in such deviations:
/// so labels may be of any unit. val_mae and test_mae are in that unit, and so are predictions, "value".
class LEVIN_API MLPRegressor : public BuiltInModule {
 public:
  struct LEVIN_API Options {
    std::optional<std::int64_t> inputs = {};
    std::vector<std::int64_t> hidden = {128, 64};  ///< none: linear regression
    double dropout = 0.0;
    double lr = 1e-3;
    static void declare(OptionList<Options>& options);
  };
  explicit MLPRegressor(const Options& options);
  at::Tensor forward(const at::Tensor& features) override;
  /// Takes over the scale of the labels, in a fit whose module has none yet.
  void configure_model() override;
  Batch predict_step(const Batch& batch, std::int64_t batch_idx) override;

 protected:
  void make(const DataFacts& facts) override;
  at::Tensor loss(const at::Tensor& given, const Batch& batch) override;
  void log_score(const std::string& stage, const at::Tensor& given, const Batch& batch) override;

 private:
  Options options_;
  at::Tensor label_scale_;  ///< mean and deviation
};

/// Learns to get samples back from a few numbers, with the mean squared error as the loss. forward() gives them back, in the
/// shape of the features; predictions are the "code" and the "reconstruction". Labels are not looked at.
class LEVIN_API Autoencoder : public BuiltInModule {
 public:
  struct LEVIN_API Options {
    std::optional<std::int64_t> inputs = {};
    std::vector<std::int64_t> hidden = {128};  ///< widths of the encoder's layers; the decoder has them the other way round
    std::int64_t code = 16;                    ///< numbers that are left of a sample
    double lr = 1e-3;
    static void declare(OptionList<Options>& options);
  };
  explicit Autoencoder(const Options& options);
  at::Tensor forward(const at::Tensor& features) override;
  Batch predict_step(const Batch& batch, std::int64_t batch_idx) override;

 protected:
  void make(const DataFacts& facts) override;
  at::Tensor loss(const at::Tensor& given, const Batch& batch) override;

 private:
  Options options_;
  torch::nn::Sequential decoder_ = nullptr;
};

}  // namespace levin
