#pragma once

#include <filesystem>
#include <string>

namespace levin {

struct MetricsSummary;
struct RunOutcome;

/// The file of a run's folder with the state of the run, for other programs.
inline constexpr const char* kRunFile = "run.json";

/// Writes run.json with the status "running", the start, the process, the host and the number of ranks. A test after a fit of
/// the same process continues the fit's file. Of two processes that want a folder at the same moment one gets it. Throws:
/// ConfigError if the folder is in use by another run; IoError.
void note_start(const std::filesystem::path& folder, int ranks);

/// Adds the summary of metrics so far. Does nothing if run.json is no longer the run's. Throws: IoError.
void note_metrics(const std::filesystem::path& folder, const MetricsSummary& summary);

/// Adds how the run ended, its duration, and the summary of metrics. Throws: IoError.
void note_end(const std::filesystem::path& folder, const RunOutcome& outcome, const MetricsSummary& summary);

/// Throws ConfigError if run.json names another process of this host, and that is running. A process of another host cannot be
/// checked.
void refuse_if_in_use(const std::filesystem::path& folder);

}  // namespace levin
