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

/// Predicts a number for each sample, by fully connected layers with ReLU. Their output is scaled by mean and deviation of the
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

}  // namespace levin
