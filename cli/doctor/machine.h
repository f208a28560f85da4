#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/cli/doctor/finding.h"

namespace levin::cli {

// What is looked at comes from outside, so that tests have machines that are broken: `root` is what /proc, /sys and /etc are
// below.

/// The kernel, the distribution and the C library.
Findings system_findings(const std::filesystem::path& root);
/// levin and its LibTorch: the stamp that plug-ins have to fit (own_stamp()), and what the LibTorch that was loaded says of
/// itself (at::show_config()), and its file.
Findings version_findings(std::string_view stamp, const std::string& loaded_config, const std::string& loaded_file);
/// The processor and the cores that may be used; `chooses_threads`: OMP_NUM_THREADS is set.
Findings processor_findings(const std::filesystem::path& root, int usable_cores, bool chooses_threads);
/// NVIDIA's driver and the GPUs that it knows; nothing where it is not there.
Findings graphics_findings(const std::filesystem::path& root);
/// Memory, and how much of it this process may have.
Findings memory_findings(const std::filesystem::path& root);

/// Limits of a process, as getrlimit() has them.
struct ProcessLimits {
  std::uint64_t open_files = 0;
  std::uint64_t threads = 0;
  std::uint64_t locked_bytes = 0;
};
ProcessLimits process_limits();
Findings limit_findings(const std::filesystem::path& root, const ProcessLimits& limits);

/// The clock: its source, `is_synchronized` as adjtimex() has it, and how often it went back when it was read many times.
Findings clock_findings(const std::filesystem::path& root, bool is_synchronized, int steps_back);
bool clock_is_synchronized();
int count_steps_back();

/// Of "NAME=VALUE", those that change what levin does, without the values of passwords and keys.
Findings environment_findings(const std::vector<std::string>& variables);

}  // namespace levin::cli
