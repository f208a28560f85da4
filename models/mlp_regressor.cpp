#include "levin/models/mlp_regressor.h"

#include <ATen/ops/tensor.h>
#include <torch/nn/functional/loss.h>

#include "levin/core/base/error.h"
#include "levin/core/config/registry.h"
#include "levin/core/label_scale.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/models/network_options.h"

namespace levin {

LEVIN_REGISTER_MODULE(MLPRegressor, "Predicts a number for each row of a table: fully connected layers");

namespace {

/// Labels in the unit of the data.
at::Tensor measures(const Module& module, const at::Tensor& given, const Batch& batch) {
  const at::Tensor& labels = batch["label"];
  const LabelScale scale = label_scale_of(module.data_module());
  if (labels.is_floating_point()) return labels.to(given.scalar_type()) * scale.deviation + scale.mean;
  throw MisuseError(
      "the labels are classes, not measurements: for a table set data.task to regression, for ArrayDataModule write floats "
      "into "
      "the file, or take MLPClassifier");
}

}  // namespace

void MLPRegressor::Options::declare(OptionList<Options>& options) { detail::declare_shared(options); }

MLPRegressor::MLPRegressor(const Options& options)
    : BuiltInModule(options.lr),
      options_(checked("MLPRegressor", options)),
      // In 64 bits, which hold the differences of large labels.
      label_scale_(register_buffer("label_scale", at::tensor({0.0, 1.0}, at::kDouble))) {
  if (options_.inputs) make({});
}

void MLPRegressor::make(const DataFacts& facts) {
  options_.inputs = detail::known_inputs(options_.inputs, facts);
  save_hyperparameters(options_);
  set_network({*options_.inputs}, detail::fully_connected(*options_.inputs, options_.hidden, 1, options_.dropout));
}

void MLPRegressor::configure_model() {
  BuiltInModule::configure_model();
  const DataModule* const data = data_module();
  const bool has_scale = label_scale_[0].item<double>() != 0 || label_scale_[1].item<double>() != 1;
  if (data == nullptr || has_scale || !has_trainer() || !trainer().fitting()) return;
  const DataFacts facts = data->facts();
  const LabelScale scale = label_scale_of(data);
  label_scale_.copy_(
      at::tensor({facts.label_mean * scale.deviation + scale.mean, facts.label_deviation * scale.deviation}, at::kDouble));
}

at::Tensor MLPRegressor::forward(const at::Tensor& features) {
  // A scale of one dimension, by which shorter numbers become as long as it is, where they might not hold what is scaled.
  return BuiltInModule::forward(features).squeeze(1) * label_scale_.narrow(0, 1, 1) + label_scale_.narrow(0, 0, 1);
}

at::Tensor MLPRegressor::loss(const at::Tensor& given, const Batch& batch) {
  return torch::nn::functional::mse_loss(given / label_scale_[1], measures(*this, given, batch) / label_scale_[1]);
}

void MLPRegressor::log_score(const std::string& stage, const at::Tensor& given, const Batch& batch) {
  log(stage + "_mae", torch::nn::functional::l1_loss(given, measures(*this, given, batch)), {.prog_bar = true});
}

Batch MLPRegressor::predict_step(const Batch& batch, std::int64_t) { return {{"value", output(batch)}}; }

}  // namespace levin
