#pragma once

#include <filesystem>
#include <string>

namespace levin {

// Checkpoints of jobs that went back into their scheduler's queue: FOLDER/hpc_ckpt_N.ckpt, with Lightning's names. Each holds,
// as `queued_job`, the job that it is of and the RestartNotes of its run.

/// The one to write next: N is 1 more than the highest that is there.
std::filesystem::path next_queue_file(const std::filesystem::path& folder);
/// The RestartNotes in the newest one of this job that is whole; "" where there is none. Others are passed over.
std::string notes_from_queue(const std::filesystem::path& folder, const std::string& job);
/// Removes those of this job, whose run has ended well.
void remove_queue_files(const std::filesystem::path& folder, const std::string& job);

}  // namespace levin
