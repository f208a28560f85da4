#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/models/built_in_module.h"

namespace levin {

/// Classifies samples: cross entropy as the loss; val_acc and test_acc; predictions "label" and the "probability"
/// of each class. forward() gives scores [N, classes]. Labels are class numbers [N], or, to train, probabilities [N, classes].
/// Throws MisuseError for labels that are not among its classes.
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

}  // namespace levin
