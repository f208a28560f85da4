#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/batch_loader.h"
#include "levin/core/data_module.h"
#include "levin/core/protocol/metrics.h"
#include "levin/core/strategy.h"

namespace levin {

// A run's messages about itself. None communicates.

/// Prints on rank 0 what an entry point starts from. `summary`: "epoch 3, step 40".
void announce_checkpoint(Stage stage, const std::filesystem::path& file, const std::string& summary);

/// How to resume a run that ended early. `lost`: steps since that checkpoint. `command`: RunOptions::resume_command.
void announce_resume(const std::filesystem::path& checkpoint, std::int64_t lost,
                     const std::function<std::string(const std::filesystem::path&)>& command);

/// A loader of a stage, and how much of it is used.
struct LoaderInUse {
  std::string name;                     ///< "train", "validation 1"
  const BatchLoader* loader = nullptr;  ///< with its shard set
  std::optional<std::int64_t> batches;  ///< after limits; unset: unknown
};
/// The loaders of an evaluation, numbered when there are several. `batches` as of EvaluationLoop::num_batches().
std::vector<LoaderInUse> evaluation_loaders(Stage stage, const LoaderList& loaders, const std::vector<std::int64_t>& batches);

/// One line of this rank: its device, its process and its share of the data: "719 of 1438 samples, 23 batches of 32".
void announce_rank(const Strategy& strategy, const std::vector<LoaderInUse>& loaders);

/// The output of validate() and test(): a table with a row per metric and a column per loader, and below it each matrix metric,
/// such as a confusion matrix.
std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results);

}  // namespace levin
