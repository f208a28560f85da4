#pragma once

#include <memory>
#include <optional>

#include "levin/core/accelerator.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"
#include "levin/core/step/precision.h"

namespace levin {

/// What a Predictor has, and the modules in it ask for.
struct PredictorParts {
  PredictorParts() = default;
  ~PredictorParts();
  PredictorParts(const PredictorParts&) = delete;
  PredictorParts& operator=(const PredictorParts&) = delete;

  std::shared_ptr<Module> module;
  std::shared_ptr<DataModule> data;
  DataFacts facts;
  at::Device device = at::kCPU;
  std::optional<PrecisionPolicy> precision;
};

}  // namespace levin
