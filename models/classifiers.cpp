#include "levin/models/classifiers.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include "levin/core/config/registry.h"
#include "levin/core/metric.h"
#include "levin/models/network_options.h"

namespace levin {

LEVIN_REGISTER_MODULE(MLPClassifier, "Classifies rows of a table: fully connected layers");
LEVIN_REGISTER_MODULE(ConvClassifier, "Classifies images: convolutions");

namespace {

/// The labels, each below `classes`. On a GPU, which would have to be waited for, LibTorch's kernel checks their values.
at::Tensor class_labels(const Batch& batch, std::int64_t classes) {
  if (!at::isIntegralType(batch["label"].scalar_type(), /*includeBool=*/true))
    throw MisuseError(
        "the labels are measurements, not classes: for a table set data.task to classification, for ArrayDataModule write "
        "integers into the file, or take MLPRegressor");
  at::Tensor labels = batch["label"].to(at::kLong);
  if (!labels.is_cpu() || labels.numel() == 0) return labels;
  const auto [least, most] = labels.aminmax();
  if (least.item<std::int64_t>() >= 0 && most.item<std::int64_t>() < classes) return labels;
  throw MisuseError(
      format("there are labels from {} to {}, and the {} classes of the model have labels from 0 to {}: set model.classes, or "
             "number the labels from 0 on",
             least.item<std::int64_t>(), most.item<std::int64_t>(), classes, classes - 1));
}

}  // namespace

at::Tensor Classifier::loss(const at::Tensor& given, const Batch& batch) {
  const at::Tensor& label = batch["label"];
  const bool is_mixed = label.is_floating_point() && label.dim() == 2;  // probabilities of classes: MixUp, CutMix
  if (is_mixed) return torch::nn::functional::cross_entropy(given, label);
  return torch::nn::functional::cross_entropy(given, class_labels(batch, given.size(1)));
}

void Classifier::log_score(const std::string& stage, const at::Tensor& given, const Batch& batch) {
  log(stage + "_acc", accuracy(given, batch["label"]), {.prog_bar = true});
}

Batch Classifier::predict_step(const Batch& batch, std::int64_t) {
  const at::Tensor probability = output(batch).softmax(1);
  return {{"label", probability.argmax(1)}, {"probability", probability}};
}

void MLPClassifier::Options::declare(OptionList<Options>& options) { detail::declare_shared(options); }

MLPClassifier::MLPClassifier(const Options& options) : Classifier(options.lr), options_(checked("MLPClassifier", options)) {
  if (options_.inputs && options_.classes) make({});
}

void MLPClassifier::make(const DataFacts& facts) {
  options_.inputs = detail::known_inputs(options_.inputs, facts);
  options_.classes = detail::known_classes(options_.classes, facts);
  save_hyperparameters(options_);
  set_network({*options_.inputs},
              detail::fully_connected(*options_.inputs, options_.hidden, *options_.classes, options_.dropout));
}

void ConvClassifier::Options::declare(OptionList<Options>& options) { detail::declare_shared(options); }

ConvClassifier::ConvClassifier(const Options& options) : Classifier(options.lr), options_(checked("ConvClassifier", options)) {
  if (!options_.shape.empty() && options_.classes) make({});
}

void ConvClassifier::make(const DataFacts& facts) {
  if (options_.shape.empty()) options_.shape = facts.features;
  if (options_.shape.size() != 3)
    throw ConfigError(
        format("model.shape: it is {}, and an image has channels, height and width: set data.shape, such as "
               "[1, 28, 28]",
               c10::str(options_.shape)));
  auto [channels, height, width] = std::tuple(options_.shape[0], options_.shape[1], options_.shape[2]);
  options_.classes = detail::known_classes(options_.classes, facts);
  save_hyperparameters(options_);
  namespace nn = torch::nn;
  nn::Sequential net;
  for (const std::int64_t filters : options_.widths) {
    net->push_back(nn::Conv2d(nn::Conv2dOptions(channels, filters, 3).padding(1).bias(false)));
    net->push_back(nn::BatchNorm2d(filters));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
    channels = filters;
    height /= 2;
    width /= 2;
  }
  if (height == 0 || width == 0)
    throw ConfigError(format("model.widths: {} convolutions, each of which halves an image of {} × {}, leave nothing of it",
                             options_.widths.size(), options_.shape[1], options_.shape[2]));
  net->push_back(nn::Flatten());
  if (options_.dropout > 0) net->push_back(nn::Dropout(options_.dropout));
  net->push_back(nn::Linear(channels * height * width, *options_.classes));
  set_network(options_.shape, net);
}

}  // namespace levin
