#pragma once

#include <memory>
#include <utility>

#include "levin/core/run/hook_runner.h"
#include "levin/core/run/run_setup.h"
#include "support/recording.h"

namespace levin::test {

/// The objects that a run's collaborators work on, on one process and without a Trainer.
struct RunBench {
  explicit RunBench(TrainerOptions options = quiet_options()) : setup(std::move(options)) { parts.module = &module; }

  RunSetup setup;
  Module module;
  RunParts parts;
  Progress progress;
  std::unique_ptr<MetricStore> metrics = std::make_unique<MetricStore>(setup.strategy->control_group(), MetricStore::Options());
  HookTracker tracker{progress, *metrics, *setup.strategy};
  HookRunner hooks{nullptr, parts, tracker};
};

}  // namespace levin::test
