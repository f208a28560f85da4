#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/models/built_in_module.h"

namespace levin {

/// Learns to compress samples, with the mean squared error as the loss. forward() gives the reconstruction, in the
/// shape of the features; predictions are the "code" and the "reconstruction". Labels are ignored.
class LEVIN_API Autoencoder : public BuiltInModule {
 public:
  struct LEVIN_API Options {
    std::optional<std::int64_t> inputs = {};
    std::vector<std::int64_t> hidden = {128};  ///< widths of the encoder's layers; the decoder has them the other way round
    std::int64_t code = 16;                    ///< numbers in the code of a sample
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
