#include <ATen/Version.h>
#include <dlfcn.h>
#include <sys/timex.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/plugin_loader.h"
#include "levin/cli/doctor/findings.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/terminal.h"
#include "levin/strategies/devices/accelerators.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

// Seconds that a look may take, not more than 30 in all.
constexpr double kTimeout = 3;
constexpr double kDevicesTimeout = 6;  // CUDA is read from the disk
constexpr double kRanksTimeout = 10;

const fs::path kRoot = "/";

Findings joined(std::initializer_list<Findings> parts) {
  Findings all;
  for (const Findings& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The devices of an accelerator, or why it has none.
Finding accelerator_finding(const Accelerator& accelerator) {
  const bool is_cuda = accelerator.device_type() == at::kCUDA;
  if (is_cuda && !has_gpu()) return {accelerator.name(), "no NVIDIA GPU"};
  Finding found{accelerator.name(), counted(0, accelerator.device_noun())};
  found.advice = "levin cannot use this machine's GPU: see docs/gpu.md";
  int count = 0;
  try {
    count = accelerator.device_count();
    found.value = counted(static_cast<std::size_t>(count), accelerator.device_noun());
  } catch (const std::exception& error) {
    found.value = error_text(error);
  }
  if (count == 0 && is_cuda) found.verdict = Verdict::kWarning;
  return found;
}

/// Each accelerator that is registered, by its first name; auto is another one.
Findings accelerator_findings() {
  Findings found;
  const auto& registry = Registry<Accelerator>::instance();
  for (const ClassInfo* info : registry.classes()) {
    const std::shared_ptr<Accelerator> accelerator = registry.make(Value(info->name), Value(Value::Map{}));
    const bool is_known = std::ranges::find(found, accelerator->name(), &Finding::what) != found.end();
    if (!is_known && accelerator->name() != "auto") found.push_back(accelerator_finding(*accelerator));
  }
  return found;
}

fs::path cache_folder() { return environment_or("LEVIN_CACHE", environment_or("HOME", "/") + "/.cache/levin"); }

Findings storage_findings() {
  const auto check_folder = [](const char* what, const fs::path& folder) {
    return run_with_timeout(kTimeout, what, [=] { return folder_findings(what, folder); });
  };
  std::error_code error;
  const fs::path cache = cache_folder();
  const fs::space_info shared = fs::space("/dev/shm", error);
  return joined({check_folder("working folder", fs::current_path()),
                 check_folder("temporary files", environment_or("TMPDIR", "/tmp")),
                 fs::exists(cache) ? check_folder("cache", cache) : Findings(),
                 error ? shared_memory_findings(0, 0) : shared_memory_findings(shared.capacity, shared.available)});
}

Findings terminal_findings() {
  const Verdict verdict = locale_is_utf8() ? Verdict::kOk : Verdict::kWarning;
  const char* const term = std::getenv("TERM");
  const std::string terminal =
      format("{}, {} columns, {}", term != nullptr ? term : "of an unknown kind", terminal_width(STDOUT_FILENO),
             terminal_has_color(STDOUT_FILENO) ? "colours" : "no colours");
  return {{"locale", verdict == Verdict::kOk ? "UTF-8" : "not UTF-8", verdict, "bars and names lose characters: LANG=C.UTF-8"},
          {"terminal", is_terminal(STDOUT_FILENO) ? terminal : "output goes to a file or a pipe"}};
}

Findings process_findings() {
  const auto limit_of = [](auto resource) {
    rlimit limit{};
    return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
  };
  timex clock{};
  const bool is_synchronized = adjtimex(&clock) != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  return joined({limit_findings(kRoot, limit_of(RLIMIT_NOFILE), limit_of(RLIMIT_NPROC), limit_of(RLIMIT_MEMLOCK)),
                 clock_findings(kRoot, is_synchronized, count_steps_back()), terminal_findings()});
}

std::vector<DoctorSection> examine() {
  // At the same time as all else: a program may not answer when it is asked for its version.
  std::future<Findings> programs = std::async(std::launch::async, [] {
    return run_with_timeout(kRanksTimeout, "programs", [] { return program_findings(kTimeout); });
  });
  Dl_info torch{};
  dladdr(reinterpret_cast<const void*>(&at::show_config), &torch);
  const std::string torch_file = torch.dli_fname != nullptr ? torch.dli_fname : "";
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Our own main() sets it.
    if (*entry != format("{}={}", kOpenMpSpinsVariable, kOpenMpSpins)) variables.emplace_back(*entry);
  }
  return {
      {"versions", joined({version_findings(own_stamp(), at::show_config(), torch_file),
                           other_libtorch_findings(torch_file, environment_or("LD_LIBRARY_PATH", ""), cache_folder()),
                           system_findings(kRoot)})},
      {"devices", joined({processor_findings(kRoot, usable_cores(), std::getenv("OMP_NUM_THREADS") != nullptr),
                          memory_findings(kRoot), run_with_timeout(kDevicesTimeout, "accelerators", accelerator_findings),
                          graphics_findings(kRoot, at::show_config())})},
      {"links", joined({run_with_timeout(kRanksTimeout + 1, "ranks", [] { return rank_findings(rank_bench(), kRanksTimeout); }),
                        interface_findings(), run_with_timeout(kTimeout, "host name", own_host_name_findings)})},
      {"storage", storage_findings()},
      {"limits and clock", process_findings()},
      {"programs", programs.get()},
      {"environment", environment_findings(variables)}};
}

}  // namespace

Subcommand doctor_subcommand() {
  const auto as_json = std::make_shared<bool>(false);
  return {"doctor", "Check this machine, in at most 30 s; include the output in a bug report",
          [as_json](CLI::App& app) { app.add_flag("--json", *as_json, "As JSON"); },
          [as_json](const CommandLine&) {
            const std::vector<DoctorSection> sections = examine();
            std::cout << (*as_json ? plain_json(report_value(sections)) : report_text(sections));
            return report_status(sections);
          }};
}

}  // namespace levin::cli
