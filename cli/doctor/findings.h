#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// kMissing: something that only some need is not here. kWarning: it works, but worse than it could. kWrong: something will
/// fail.
enum class Verdict { kOk, kMissing, kWarning, kWrong };

/// Something that levin doctor has checked.
struct Finding {
  std::string what;
  std::string value;  ///< as found
  Verdict verdict = Verdict::kOk;
  std::string advice = {};  ///< what follows from it, and what to do; shown where not all is well
};
using Findings = std::vector<Finding>;

struct DoctorSection {
  std::string title;
  Findings findings;
};

/// All of it, in lines of at most 100 columns.
std::string report_text(const std::vector<DoctorSection>& sections);
/// The same for programs.
Value report_value(const std::vector<DoctorSection>& sections);
/// 1 where something is wrong.
int report_status(const std::vector<DoctorSection>& sections);

/// What `look` finds, in another thread: a disk or a name server may not answer, which then is the finding. So is
/// an error.
Findings run_with_timeout(double seconds, const std::string& what, std::function<Findings()> look);

/// The result of a program.
struct Ended {
  std::optional<int> status;       ///< nothing where it was ended because it took too long
  std::vector<std::string> lines;  ///< what it has printed, without empty lines
};
/// Runs it without a shell: `words` are its file and its arguments. It is ended after so many seconds.
Ended ended_program(const std::vector<std::string>& words, double seconds);

// What is checked comes from outside, so that tests have machines that are broken: `root` is what /proc, /sys and /etc are
// below. Each of these is in the source of its section: machine.cpp, storage.cpp, links.cpp.

/// levin and its LibTorch: the stamp that plug-ins have to fit (own_stamp()), and what the LibTorch that was loaded says of
/// itself (at::show_config()), and its file.
Findings version_findings(std::string_view stamp, const std::string& loaded_config, const std::string& loaded_file);
/// LibTorches that are not the loaded one: in `search_path`, which is LD_LIBRARY_PATH, and in `cache`, where `levin setup` puts
/// them.
Findings other_libtorch_findings(const std::string& loaded_file, const std::string& search_path,
                                 const std::filesystem::path& cache);
/// The kernel, the distribution and the C library.
Findings system_findings(const std::filesystem::path& root);
/// The processor and the cores that may be used; `chooses_threads`: OMP_NUM_THREADS is set.
Findings processor_findings(const std::filesystem::path& root, int usable_cores, bool chooses_threads);
/// NVIDIA's driver and the GPUs that it knows; empty without the driver. `loaded_config`: what the LibTorch that was
/// loaded says of itself.
Findings graphics_findings(const std::filesystem::path& root, const std::string& loaded_config);
/// Memory, and how much of it this process may have.
Findings memory_findings(const std::filesystem::path& root);
/// Limits of a process, as getrlimit() has them.
Findings limit_findings(const std::filesystem::path& root, rlim_t open_files, rlim_t threads, rlim_t locked_bytes);
/// The clock: its source, `is_synchronized` as adjtimex() has it, and how often it went back when it was read many times.
Findings clock_findings(const std::filesystem::path& root, bool is_synchronized, int steps_back);
int count_steps_back();
/// Of "NAME=VALUE", those that change what levin does, without the values of passwords and keys.
Findings environment_findings(const std::vector<std::string>& variables);

/// A folder that levin writes to: its free space, how fast a file of 4 MB is written to disk, and whether a file can
/// replace another one and be mapped into memory.
Findings folder_findings(const std::string& what, const std::filesystem::path& folder);
/// /dev/shm, of which so many bytes are free.
Findings shared_memory_findings(std::uintmax_t capacity, std::uintmax_t available);

/// What only some need: to build plug-ins a compiler, CMake and Ninja or make, and for what the documentation names besides
/// levin Python, Optuna, W&B, libcurl and what reads image files. Those that PATH, CXX, PYTHON and WANDB_CORE name are asked
/// for their versions.
Findings program_findings(double seconds);

/// What two ranks of this host say to one another, in the table that `levin bench comm` prints: `bench` is that program, with
/// its words. It is ended after so many seconds.
Findings rank_findings(const std::vector<std::string>& bench, double seconds);
/// The words of that program: this one, without what the environment says of ranks and configurations.
std::vector<std::string> rank_bench();
/// The addresses of the network interfaces.
Findings interface_findings();
/// What the host's name leads to; `error` says why it leads nowhere.
Findings host_name_findings(const std::string& host, const std::vector<std::string>& addresses, const std::string& error);
/// The same, as this host's resolver answers.
Findings own_host_name_findings();

}  // namespace levin::cli
