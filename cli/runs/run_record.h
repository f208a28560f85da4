#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/cli/runs/metric_summary.h"
#include "levin/core/options/value.h"

namespace levin::cli {

/// What lists of runs tell of one: see RunFolder for what is not explained here.
struct RunRecord {
  std::filesystem::path path;
  std::string name;
  std::string status;
  std::string started;
  double seconds = 0;
  std::string failure;
  std::vector<std::string> tags;
  Value config;
  RunSummary summary;
};

/// Reads a run's folder, metrics included.
RunRecord read_run_record(const std::filesystem::path& folder);

/// The runs among these folders and below them, as find_runs() has them. What has not changed since the last time comes from
/// the index that each of the folders has (see RunIndex). Throws as find_runs() does.
std::vector<RunRecord> find_run_records(const std::vector<std::filesystem::path>& folders);

}  // namespace levin::cli
