#pragma once

#include <c10/util/Exception.h>

#include <optional>

#include "levin/core/diagnostics/torch_messages.h"
#include "levin/core/trainer_options.h"

namespace levin {

/// Settings of LibTorch that belong to the process or to this thread, for as long as levin works.
class ProcessSettings {
 public:
  explicit ProcessSettings(const TrainerOptions& options);
  ~ProcessSettings();
  ProcessSettings(const ProcessSettings&) = delete;
  ProcessSettings& operator=(const ProcessSettings&) = delete;

 private:
  bool deterministic_;
  bool only_warns_;
  bool anomaly_;
  bool checks_nan_;
  bool benchmark_;
  std::optional<MatmulPrecision> matmul_precision_;  ///< LibTorch's, where the run has another; the enums have one order
  int threads_;
  TorchWarnings warnings_;
  c10::WarningUtils::WarningHandlerGuard warnings_guard_{&warnings_};
};

}  // namespace levin
