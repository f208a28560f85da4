#include "levin/models/network_options.h"

#include <c10/util/accumulate.h>
#include <torch/nn/modules.h>

#include "levin/core/base/error.h"

namespace levin::detail {

torch::nn::Sequential fully_connected(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t outputs,
                                      double dropout) {
  torch::nn::Sequential net;
  for (const std::int64_t width : hidden) {
    net->push_back(torch::nn::Linear(inputs, width));
    net->push_back(torch::nn::ReLU());
    if (dropout > 0) net->push_back(torch::nn::Dropout(dropout));
    inputs = width;
  }
  net->push_back(torch::nn::Linear(inputs, outputs));
  return net;
}

std::int64_t known_inputs(std::optional<std::int64_t> given, const DataFacts& facts) {
  if (given) return *given;
  if (!facts.features.empty()) return c10::multiply_integers(facts.features);
  throw ConfigError(
      "model.inputs: it is not given, and the data does not tell it (DataModule::facts()): set it to how many numbers a sample "
      "has");
}

std::int64_t known_classes(std::optional<std::int64_t> given, const DataFacts& facts) {
  if (given) return *given;
  if (!facts.classes)
    throw ConfigError(
        "model.classes: it is not given, and the data does not tell it. TableDataModule does with task: classification where "
        "labels are texts, or whole numbers from 0 on, below the number of samples. For others set it to their number");
  if (*facts.classes >= 2) return *facts.classes;
  throw ConfigError("model.classes: all labels of the data are the same, so that there is nothing to tell apart");
}

}  // namespace levin::detail
