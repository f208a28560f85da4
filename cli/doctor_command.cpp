#include <ATen/Version.h>
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "levin/cli/command_line.h"
#include "levin/cli/doctor/finding.h"
#include "levin/cli/doctor/links.h"
#include "levin/cli/doctor/machine.h"
#include "levin/cli/doctor/storage.h"
#include "levin/cli/plugin_loader.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/options/registry.h"
#include "levin/core/options/value_json.h"
#include "levin/strategies/devices/accelerators.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

// Seconds that a look may take, not more than 30 in all.
constexpr double kPatience = 3;
constexpr double kPatienceWithDevices = 6;  // CUDA is read from the disk
constexpr double kPatienceWithRanks = 10;

const fs::path kRoot = "/";

void append(Findings& all, Findings more) { all.insert(all.end(), more.begin(), more.end()); }

/// The devices of an accelerator, or why it has none.
Finding accelerator_finding(const Accelerator& accelerator) {
  Finding found{accelerator.name(), counted(0, accelerator.device_noun())};
  found.advice = "this machine has a GPU that levin cannot use: see docs/gpu.md";
  int count = 0;
  try {
    count = accelerator.device_count();
    found.value = counted(static_cast<std::size_t>(count), accelerator.device_noun());
  } catch (const std::exception& error) {
    found.value = error_text(error);
  }
  if (count == 0 && accelerator.device_type() == at::kCUDA && has_gpu()) found.verdict = Verdict::kWarning;
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

Findings storage_findings() {
  std::vector<std::pair<std::string, fs::path>> folders = {{"working folder", fs::current_path()}};
  const char* const temporary = std::getenv("TMPDIR");
  folders.emplace_back("temporary files", temporary != nullptr && *temporary != '\0' ? temporary : "/tmp");
  const char* const home = std::getenv("HOME");
  const fs::path cache = fs::path(home != nullptr ? home : "/") / ".cache/levin";
  std::error_code ignored;
  if (fs::exists(cache, ignored)) folders.emplace_back("cache", cache);
  Findings found;
  for (const auto& [what, folder] : folders)
    append(found, look_within(kPatience, what, [what = what, folder = folder] { return folder_findings(what, folder); }));
  const fs::space_info shared = fs::space("/dev/shm", ignored);
  append(found, ignored ? Findings{{"/dev/shm", "is not there", Verdict::kWarning, "NCCL needs it between GPUs"}}
                        : shared_memory_findings(shared.capacity, shared.available));
  return found;
}

Findings terminal_findings() {
  const bool is_terminal = levin::is_terminal(STDOUT_FILENO);
  const char* const term = std::getenv("TERM");
  return {{"locale", locale_is_utf8() ? "UTF-8" : "not UTF-8", locale_is_utf8() ? Verdict::kOk : Verdict::kWarning,
           "bars and names lose characters: LANG=C.UTF-8"},
          {"terminal",
           !is_terminal ? "output goes to a file or a pipe"
                        : format("{}, {} columns, {}", term != nullptr ? term : "of an unknown kind",
                                 terminal_width(STDOUT_FILENO), terminal_has_color(STDOUT_FILENO) ? "colours" : "no colours")}};
}

std::vector<DoctorSection> examine() {
  Dl_info torch{};
  dladdr(reinterpret_cast<const void*>(&at::show_config), &torch);
  Findings versions = version_findings(own_stamp(), at::show_config(), torch.dli_fname != nullptr ? torch.dli_fname : "");
  append(versions, system_findings(kRoot));
  Findings devices = processor_findings(kRoot, usable_cores(), std::getenv("OMP_NUM_THREADS") != nullptr);
  append(devices, memory_findings(kRoot));
  append(devices, look_within(kPatienceWithDevices, "accelerators", accelerator_findings));
  append(devices, graphics_findings(kRoot));
  Findings links = look_within(kPatienceWithRanks + 1, "ranks", [] { return rank_findings(rank_bench(), kPatienceWithRanks); });
  append(links, interface_findings());
  append(links, look_within(kPatience, "host name", own_host_name_findings));
  Findings rest = limit_findings(kRoot, process_limits());
  append(rest, clock_findings(kRoot, clock_is_synchronized(), count_steps_back()));
  append(rest, terminal_findings());
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Our own main() sets it.
    if (*entry != format("{}={}", kOpenMpSpinsVariable, kOpenMpSpins)) variables.emplace_back(*entry);
  }
  return {{"versions", versions},          {"devices", devices},       {"links", links},
          {"storage", storage_findings()}, {"limits and clock", rest}, {"environment", environment_findings(variables)}};
}

}  // namespace

Subcommand doctor_subcommand() {
  const auto as_json = std::make_shared<bool>(false);
  return {"doctor", "Say what is wrong with this machine, in at most 30 s: what belongs into a bug report",
          [as_json](CLI::App& app) { app.add_flag("--json", *as_json, "As JSON"); },
          [as_json](const CommandLine&) {
            const std::vector<DoctorSection> sections = examine();
            std::cout << (*as_json ? plain_json(report_value(sections)) : report_text(sections));
            return report_status(sections);
          }};
}

}  // namespace levin::cli
