#pragma once

#include <c10/util/accumulate.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"

// The options that built-in modules share, and what is made of them.
namespace levin::detail {

/// Linear layers from `inputs` over these widths to `outputs`, with ReLU and dropout between.
inline torch::nn::Sequential fully_connected(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t outputs,
                                             double dropout = 0.0) {
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

/// A size that is given, else the data's. Throws ConfigError where it is not known.
inline std::int64_t known_inputs(std::optional<std::int64_t> given, const DataFacts& facts) {
  if (given) return *given;
  if (!facts.features.empty()) return c10::multiply_integers(facts.features);
  throw ConfigError(
      "model.inputs: it is not given, and the data does not say it (DataModule::facts()): set it to how many numbers a sample "
      "has");
}

/// The same. Throws ConfigError also where the data has one class only.
inline std::int64_t known_classes(std::optional<std::int64_t> given, const DataFacts& facts) {
  if (given) return *given;
  if (!facts.classes)
    throw ConfigError(
        "model.classes: it is not given, and the data does not say it. TableDataModule does with task: classification where "
        "labels are texts, or whole numbers from 0 on, below the number of samples; with its map_labels: true also where they "
        "are other whole numbers, such as 1, 2, 3. ArrayDataModule does where they are integers from 0 on, below the number of "
        "samples. Else set it to their number");
  if (*facts.classes >= 2) return *facts.classes;
  throw ConfigError("model.classes: all labels of the data are the same, so that there is nothing to distinguish");
}

/// Declares those that O has.
template <class O>
void declare_shared(OptionList<O>& options) {
  const auto declare_widths = [&](const char* name, std::vector<std::int64_t> O::*widths, const char* help) {
    options.add(name, widths, help);
    options.rule({name}, [=](const O& model) {
      const bool are_right = std::ranges::all_of(model.*widths, [](std::int64_t width) { return width > 0; });
      return are_right ? "" : format("each of {} is at least 1", name);
    });
  };
  if constexpr (requires { &O::inputs; })
    options.add("inputs", &O::inputs, "Numbers of a sample; null: as many as the data has").min(1);
  if constexpr (requires { &O::shape; })
    options.add("shape", &O::shape, "Shape of an image: channels, height, width; empty: that of the data")
        .min(1)
        .linked_to("data.shape");
  if constexpr (requires { &O::classes; })
    options.add("classes", &O::classes, "Number of classes, whose labels are from 0 on; null: those of the data").min(2);
  if constexpr (requires { &O::hidden; })
    declare_widths("hidden", &O::hidden, "Widths of the layers between, from the input on");
  if constexpr (requires { &O::widths; })
    declare_widths("widths", &O::widths, "Channels of the convolutions, each of which halves height and width");
  if constexpr (requires { &O::code; }) options.add("code", &O::code, "Numbers in the code of a sample").min(1);
  if constexpr (requires { &O::dropout; })
    options.add("dropout", &O::dropout, "Share of numbers that are left out at random in training").min(0).below(1);
  options.add("lr", &O::lr, "Learning rate of AdamW").above(0);
}

}  // namespace levin::detail
