#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/data_module.h"
#include "levin/core/options/options.h"

// The options that built-in modules share, and what is made of them.
namespace levin::detail {

/// Linear layers from `inputs` over these widths to `outputs`, with ReLU and dropout between.
torch::nn::Sequential fully_connected(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t outputs,
                                      double dropout = 0.0);

/// A size that is given, else the data's. Each throws ConfigError where neither is known, or the data's is none to learn from.
std::int64_t known_inputs(std::optional<std::int64_t> given, const DataFacts& facts);
std::int64_t known_classes(std::optional<std::int64_t> given, const DataFacts& facts);

/// Declares those that O has.
template <class O>
void declare_shared(OptionList<O>& options) {
  const auto declare_widths = [&](const char* name, std::vector<std::int64_t> O::*widths, const char* help) {
    options.add(name, widths, help);
    options.rule({name}, [widths](const O& model) {
      return std::ranges::all_of(model.*widths, [](auto width) { return width > 0; }) ? "" : "each width is at least 1";
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
    declare_widths("hidden", &O::hidden, "Widths of the layers between; none: a linear model");
  if constexpr (requires { &O::widths; })
    declare_widths("widths", &O::widths, "Channels of the convolutions, each of which halves height and width");
  if constexpr (requires { &O::dropout; })
    options.add("dropout", &O::dropout, "Share of numbers that are left out at random in training").min(0).below(1);
  options.add("lr", &O::lr, "Learning rate of AdamW").above(0);
}

}  // namespace levin::detail
