#include "levin/models/autoencoder.h"

#include <torch/nn/functional/loss.h>

#include "levin/core/config/registry.h"
#include "levin/models/network_options.h"

namespace levin {

LEVIN_REGISTER_MODULE(Autoencoder, "Learns to compress samples: fully connected layers");

void Autoencoder::Options::declare(OptionList<Options>& options) { detail::declare_shared(options); }

Autoencoder::Autoencoder(const Options& options) : BuiltInModule(options.lr), options_(checked("Autoencoder", options)) {
  if (options_.inputs) make({});
}

void Autoencoder::make(const DataFacts& facts) {
  const std::int64_t inputs = detail::known_inputs(options_.inputs, facts);
  options_.inputs = inputs;
  save_hyperparameters(options_);
  set_network({inputs}, detail::fully_connected(inputs, options_.hidden, options_.code));
  const std::vector<std::int64_t> backwards(options_.hidden.rbegin(), options_.hidden.rend());
  decoder_ = register_module("decoder", detail::fully_connected(options_.code, backwards, inputs));
}

at::Tensor Autoencoder::forward(const at::Tensor& features) {
  return decoder_->forward(BuiltInModule::forward(features)).view_as(features);
}

at::Tensor Autoencoder::loss(const at::Tensor& given, const Batch& batch) {
  return torch::nn::functional::mse_loss(given, batch["features"].to(given.scalar_type()));
}

Batch Autoencoder::predict_step(const Batch& batch, std::int64_t) {
  const at::Tensor& features = batch["features"];
  const at::Tensor code = BuiltInModule::forward(features);
  return {{"code", code}, {"reconstruction", decoder_->forward(code).view_as(features)}};
}

}  // namespace levin
