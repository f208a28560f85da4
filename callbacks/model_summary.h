#pragma once

#include <cstdint>
#include <string>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace torch::nn {
class Module;
}

namespace levin {

struct LEVIN_API ModelSummaryOptions {
  std::int64_t max_depth = 1;  ///< levels of submodules shown; -1: all, 0: no summary

  static void declare(OptionList<ModelSummaryOptions>& options);
};

/// Prints what the model is made of when a fit starts, on rank 0.
class LEVIN_API ModelSummary final : public WithOptions<Callback, ModelSummaryOptions> {
 public:
  explicit ModelSummary(const Options& options = {}) : WithOptions("ModelSummary", options) {}

  CallbackPhase phase() const override { return CallbackPhase::kProgress; }
  void on_fit_start(Trainer& trainer, Module& module) override;
};

/// The table that ModelSummary prints: name, type, parameters and mode of each submodule down to max_depth (-1: all), then the
/// numbers of parameters, their size and the modules in train and eval mode. A parameter that is used twice counts once.
LEVIN_API std::string summarize_model(const torch::nn::Module& model, std::int64_t max_depth = 1);

}  // namespace levin
