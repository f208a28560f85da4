#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/cli/runs/metric_summary.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// A run in lists of runs: see RunFolder for what is not explained here.
struct RunRecord {
  std::filesystem::path path;
  std::string name;
  std::string status;  ///< "running?" of one that is silent
  std::string started;
  double seconds = 0;
  std::string failure;
  std::vector<std::string> tags;
  Value config;  ///< null where it was not read
  RunSummary summary;
};

/// Reads a run's folder. The values of its metrics are from run.json, else from metrics.csv.
RunRecord read_run_record(const std::filesystem::path& folder, RunDetail detail = RunDetail::kSettings);

/// The runs among these folders and below them, as find_runs() has them. Throws as it does.
std::vector<RunRecord> find_run_records(const std::vector<std::filesystem::path>& folders,
                                        RunDetail detail = RunDetail::kSettings);

}  // namespace levin::cli
