#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/runs/metric_summary.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// A checkpoint of a run.
struct RunCheckpoint {
  std::filesystem::path file;
  std::string monitor;  ///< "" where it was not chosen by a metric
  double score = 0;     ///< the metric's value then
};

/// A run as it lies on the disk: "logs/version_3" and what is in it. Of a damaged or half-written file it has what can be read.
struct RunFolder {
  std::filesystem::path path;
  std::string name;   ///< for people: the path, without what all listed runs have in common
  Value config;       ///< of config.yaml; null where there is none
  Value hyperparams;  ///< of hparams.yaml; null where there is none
  /// "running", "finished", "failed", "interrupted", or "unknown" where no run.json says so. One whose process is gone is
  /// "failed".
  std::string status = "unknown";
  std::string started;      ///< "2026-11-26 14:02:47", local time; "" unknown
  double seconds = 0;       ///< how long it ran; 0: unknown
  std::string failure;      ///< of a failed run: what it said
  bool is_lost = false;     ///< its process is gone, and no end is recorded
  bool is_stale = false;    ///< "running" on another host, with no sign of life for an hour
  std::string stop_reason;  ///< of a finished run: "max_epochs=5 reached"
  std::int64_t ranks = 1;
  std::vector<std::string> warnings;
  std::vector<std::string> tags;
  std::vector<RunCheckpoint> checkpoints;
  /// What run.json says of metrics.csv; unset for a run that is not over or was killed, and where the file has changed since.
  std::optional<RunSummary> summary;

  bool has_metrics() const { return std::filesystem::exists(metrics_file()); }
  std::filesystem::path metrics_file() const { return path / "metrics.csv"; }
};

/// True for a folder with metrics.csv, config.yaml or run.json.
bool is_run_folder(const std::filesystem::path& folder);
/// How much of a run is read: run.json and tags; its configuration, too; or all, the manifests of checkpoints included.
enum class RunDetail { kState, kSettings, kAll };
/// Reads a run. Throws IoError for a folder that is not a run's.
RunFolder read_run_folder(const std::filesystem::path& folder, RunDetail detail = RunDetail::kAll);
/// The runs among these folders and anywhere below them, in the order of their numbers, with their names. Throws IoError when a
/// folder does not exist, or when there is no run at all.
std::vector<RunFolder> find_runs(const std::vector<std::filesystem::path>& folders);

/// True for a folder that a run has written: is_run_folder(), except a project with its own config.yaml.
bool is_written_by_run(const std::filesystem::path& folder);
/// Where `levin fit` and `levin sweep` write by default; the working folder where neither has.
std::vector<std::filesystem::path> default_run_folders();
/// Where find_runs() finds runs, without reading them. Throws as it does.
std::vector<std::filesystem::path> find_run_paths(const std::vector<std::filesystem::path>& folders);
/// The names that find_runs() gives runs in these folders.
std::vector<std::string> run_names(const std::vector<std::filesystem::path>& paths);
/// Replaces the tags of a run. Throws IoError.
void write_tags(const std::filesystem::path& run, const std::vector<std::string>& tags);

}  // namespace levin::cli
