#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

/// A job of Slurm's.
struct SlurmJob {
  std::string number;  ///< "123", or "123_4" of an array
  int restarts = 0;    ///< how often it has come out of the queue again
};

/// The job that this process belongs to; nothing outside of Slurm and in an interactive job, which is not put back.
std::optional<SlurmJob> slurm_job(const EnvironmentLookup& lookup = process_environment);

/// Puts the job back into its queue with `scontrol requeue`; Slurm then ends its processes. Throws IoError with what scontrol
/// says, or when it has not ended within `patience`: it is killed then.
void requeue_slurm_job(const std::string& number, std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace levin
