#pragma once

#include <filesystem>
#include <string>

namespace levin {

struct MetricsSummary;
struct RunOutcome;

/// The file of a run's folder which tells other programs how the run is.
inline constexpr const char* kRunFile = "run.json";

/// Writes run.json: its status "running", its start, and the process, the host and the number of ranks. A test of this process
/// that follows its fit goes on with the fit's. Of two processes that ask for a folder at one moment one gets it. Throws:
/// ConfigError where the folder is that of another run, which is on; IoError.
void note_start(const std::filesystem::path& folder, int ranks);

/// Adds what the metrics of a run that is on have come to. Does nothing where run.json is no longer the run's. Throws: IoError.
void note_metrics(const std::filesystem::path& folder, const MetricsSummary& summary);

/// Adds how the run has ended, after how many seconds, and what its metrics came to. Throws: IoError.
void note_end(const std::filesystem::path& folder, const RunOutcome& outcome, const MetricsSummary& summary);

/// Throws ConfigError where run.json says that another process of this host is at work in the folder, and it is. What runs on
/// another host cannot be asked for.
void refuse_if_in_use(const std::filesystem::path& folder);

}  // namespace levin
