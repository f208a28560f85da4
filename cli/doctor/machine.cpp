#include <gnu/libc-version.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "levin/cli/commands/manual_files.h"
#include "levin/cli/config/command_walk.h"
#include "levin/cli/config/plugin_loader.h"
#include "levin/cli/doctor/findings.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/format.h"
#include "levin/core/base/machine_memory.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/version.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGibi = 1 << 30;

/// A file of the kernel's, which says that it has no bytes; empty where there is none.
std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

/// "Intel Xeon" of "model name : Intel Xeon": the value in the first line of that name.
std::string field_of(const std::string& text, std::string_view name, std::string_view separator) {
  for (const std::string& line : split(text, "\n")) {
    const std::size_t at = line.find(separator);
    if (!line.starts_with(name) || at == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t\"", at + separator.size());
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "";
}

/// "2.13.0" of "USE_CUDA=ON, TORCH_VERSION=2.13.0, …", which is what LibTorch says of itself.
std::string setting_of(const std::string& config, std::string_view name) {
  const std::size_t at = config.find(name);
  const std::string rest = at == std::string::npos ? "" : config.substr(at + name.size());
  return rest.substr(0, rest.find_first_of(", \n"));
}

/// The number that a text begins with; nothing for "max".
std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The texts of a file in this process's control group and those above it. `controller` and `file` are the older version's.
std::vector<std::string> group_texts(const fs::path& root, const std::string& controller, const std::string& file,
                                     const std::string& unified_file) {
  std::vector<std::string> texts;
  for (const std::string& line : split(text_of(root / "proc/self/cgroup"), "\n")) {
    const std::vector<std::string> parts = split(line, ":");
    if (parts.size() < 3) continue;
    const bool is_unified = parts[1].empty();
    const std::vector<std::string> controllers = split(parts[1], ",");
    if (!is_unified && std::ranges::find(controllers, controller) == controllers.end()) continue;
    const fs::path mount = root / "sys/fs/cgroup" / (is_unified ? "" : controller);
    for (fs::path group = fs::path(parts[2]).relative_path();; group = group.parent_path()) {
      if (std::string text = text_of(mount / group / (is_unified ? unified_file : file)); !text.empty())
        texts.push_back(std::move(text));
      if (group.empty()) break;
    }
  }
  return texts;
}

/// The least of the numbers in such files; nothing where there is no limit.
std::optional<std::uint64_t> group_limit(const fs::path& root, const std::string& controller, const std::string& file,
                                         const std::string& unified_file) {
  constexpr std::uint64_t kNone = std::uint64_t{1} << 60;  // the older version writes nearly 2^63
  std::optional<std::uint64_t> least;
  for (const std::string& text : group_texts(root, controller, file, unified_file)) {
    const std::optional<std::uint64_t> number = number_in(text);
    if (number && *number < kNone) least = std::min(least.value_or(*number), *number);
  }
  return least;
}

/// The cores' worth of time that this process may take; nothing where there is no limit.
std::optional<double> core_quota(const fs::path& root) {
  std::optional<double> least;
  const std::vector<std::string> periods = group_texts(root, "cpu", "cpu.cfs_period_us", "cpu.max");
  const std::vector<std::string> quotas = group_texts(root, "cpu", "cpu.cfs_quota_us", "cpu.max");
  for (std::size_t index = 0; index < std::min(quotas.size(), periods.size()); ++index) {
    const std::optional<std::uint64_t> quota = number_in(quotas[index]);
    // "200000 100000": both in one file.
    const std::optional<std::uint64_t> period = number_in(split(periods[index], " ").back());
    if (!quota || !period || *period == 0) continue;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    least = std::min(least.value_or(cores), cores);
  }
  return least;
}

std::string count_text(rlim_t count) { return count == RLIM_INFINITY ? "unlimited" : std::to_string(count); }

/// True also of a user's name, and of an address with one: https://me:secret@host.
bool is_secret(std::string_view name, std::string_view value) {
  return names_secret(name) || name.ends_with("USERNAME") || value.find('@') != std::string_view::npos;
}

bool is_one_of(std::string_view name, std::string_view pattern) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

}  // namespace

Findings system_findings(const fs::path& root) {
  const std::string distribution = field_of(text_of(root / "etc/os-release"), "PRETTY_NAME=", "=");
  return {{"kernel", text_of(root / "proc/sys/kernel/osrelease")},
          {"distribution", distribution.empty() ? "unknown (no /etc/os-release)" : distribution},
          {"glibc", gnu_get_libc_version()}};
}

Findings version_findings(std::string_view stamp, const std::string& loaded_config, const std::string& loaded_file) {
  Findings found = {{"levin", format("{}, ABI {}, headers {}, compiled by {}", kVersion, stamp_field(stamp, "levin"),
                                     stamp_field(stamp, "headers"), stamp_field(stamp, "compiler"))}};
  const std::string built_with(stamp_field(stamp, "torch"));
  const std::string loaded = setting_of(loaded_config, "TORCH_VERSION=");
  const bool is_same = loaded.substr(0, loaded.find('+')) == built_with.substr(0, built_with.find('+'));
  found.push_back(
      {"LibTorch",
       format("built with {}, loaded {} ({})", built_with, loaded.empty() ? "an unknown version" : loaded, loaded_file),
       is_same ? Verdict::kOk : Verdict::kWrong,
       "their classes are incompatible; is another LibTorch in LD_LIBRARY_PATH or LD_PRELOAD? Build levin with the one "
       "that is loaded (Torch_DIR), or unset these variables"});
  return found;
}

Findings other_libtorch_findings(const std::string& loaded_file, const std::string& search_path, const fs::path& cache) {
  Findings found;
  std::error_code ignored;
  const fs::path loaded = fs::weakly_canonical(loaded_file, ignored).parent_path();
  for (const fs::path folder : split(search_path, ":")) {
    if (folder.empty() || !fs::exists(folder / "libtorch_cpu.so", ignored) || fs::weakly_canonical(folder, ignored) == loaded)
      continue;
    found.push_back({"LD_LIBRARY_PATH", format("has another LibTorch: {}", folder), Verdict::kWarning,
                     "plug-ins may load it, and its classes are incompatible: remove it from LD_LIBRARY_PATH"});
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(cache, ignored)) {
    if (!fs::exists(entry.path() / "torch/lib/libtorch_cpu.so", ignored)) continue;
    if (fs::weakly_canonical(entry.path() / "torch/lib", ignored) != loaded)
      found.push_back({"also there", format("{} (this levin does not use it)", entry.path())});
  }
  return found;
}

Findings processor_findings(const fs::path& root, int usable_cores, bool chooses_threads) {
  const std::string model = field_of(text_of(root / "proc/cpuinfo"), "model name", ":");
  const std::string nodes = text_of(root / "sys/devices/system/node/online");
  Findings found = {{"CPU", model.empty() ? "of an unknown model" : model},
                    {"cores", counted(static_cast<std::size_t>(usable_cores), "core")}};
  if (const std::optional<double> quota = core_quota(root)) {
    Finding& cores = found.back();
    cores.value += format(", time of {:.3g} of them (cgroup)", *quota);
    if (*quota + 0.5 < usable_cores && !chooses_threads) cores.verdict = Verdict::kWarning;
    cores.advice = format("a run starts a thread for each core, and these slow each other down: set OMP_NUM_THREADS={:.0f}",
                          std::max(1.0, *quota));
  }
  found.push_back({"NUMA nodes", nodes.empty() ? "unknown" : nodes});
  return found;
}

Findings graphics_findings(const fs::path& root, const std::string& loaded_config) {
  const fs::path driver = root / "proc/driver/nvidia";
  const std::string version = text_of(driver / "version");
  if (version.empty()) return {};
  Findings found = {{"NVIDIA's driver", split(version, "\n").front()}};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  …"; what CUDA's release notes say that each version needs.
  const std::string cuda = setting_of(loaded_config, "CUDA_VERSION=");
  const std::uint64_t least = cuda.starts_with("11.") ? 450 : cuda.starts_with("12.") ? 525 : cuda.starts_with("13.") ? 580 : 0;
  for (const std::string& word : split(split(version, "\n").front(), " ")) {
    const std::optional<std::uint64_t> number = word.find('.') == std::string::npos ? std::nullopt : number_in(word);
    if (!number || *number >= least) continue;
    found.back().verdict = Verdict::kWarning;
    found.back().advice =
        format("LibTorch's CUDA {} needs {} or newer: install a newer driver, else runs can use the CPU only", cuda, least);
  }
  std::error_code ignored;
  for (const fs::directory_entry& gpu : fs::directory_iterator(driver / "gpus", ignored))
    found.push_back(
        {"GPU", format("{} at {}", field_of(text_of(gpu.path() / "information"), "Model", ":"), gpu.path().filename())});
  std::ranges::sort(found.begin() + 1, found.end(), {}, &Finding::value);
  return found;
}

Findings memory_findings(const fs::path& root) {
  constexpr double kLeast = 0.5 * kGibi;
  std::ifstream meminfo(root / "proc/meminfo");
  std::map<std::string, double> memory = machine_memory(meminfo);
  const double available = memory["MemAvailable"];
  const auto verdict_on = [&](double bytes) {
    return bytes < kLeast ? Verdict::kWrong : bytes < 2 * kGibi ? Verdict::kWarning : Verdict::kOk;
  };
  const char* const advice =
      "a rank takes 0.4 GiB for LibTorch alone, and the kernel kills processes that take too much (status 137)";
  Findings found = {{"memory", format("{}, {} available", bytes_text(memory["MemTotal"]), bytes_text(available)),
                     verdict_on(available), advice}};
  if (const auto limit = group_limit(root, "memory", "memory.limit_in_bytes", "memory.max")) {
    const auto bytes = static_cast<double>(*limit);
    found.push_back({"memory limit", bytes_text(bytes) + " (cgroup)", verdict_on(bytes), advice});
  }
  return found;
}

Findings limit_findings(const fs::path& root, rlim_t open_files, rlim_t threads, rlim_t locked_bytes) {
  constexpr rlim_t kFewFiles = 64, kManyFiles = 1024, kFewThreads = 64, kManyThreads = 512;
  const auto verdict_on = [](rlim_t limit, rlim_t few, rlim_t many) {
    return limit < few ? Verdict::kWrong : limit < many ? Verdict::kWarning : Verdict::kOk;
  };
  threads = std::min<rlim_t>(threads, group_limit(root, "pids", "pids.max", "pids.max").value_or(RLIM_INFINITY));
  const bool locks_all = locked_bytes == RLIM_INFINITY;
  const bool needs_more = !locks_all && fs::exists(root / "sys/class/infiniband");
  return {{"open files", count_text(open_files), verdict_on(open_files, kFewFiles, kManyFiles),
           "each rank needs some for every other rank and for its data: ulimit -n 4096"},
          {"threads", count_text(threads), verdict_on(threads, kFewThreads, kManyThreads),
           "each rank has one for each core and loader: raise ulimit -u, or pids.max of the control group"},
          {"locked memory", locks_all ? "unlimited" : bytes_text(static_cast<double>(locked_bytes)),
           needs_more ? Verdict::kWarning : Verdict::kOk, "this host has InfiniBand, which needs it: ulimit -l unlimited"}};
}

int count_steps_back() {
  constexpr int kReadings = 100'000;
  int count = 0;
  double last = steady_seconds();
  for (int reading = 0; reading < kReadings; ++reading) {
    const double now = steady_seconds();
    if (now < last) ++count;
    last = now;
  }
  return count;
}

Findings clock_findings(const fs::path& root, bool is_synchronized, int steps_back) {
  const std::string source = text_of(root / "sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool is_slow = source == "hpet" || source == "acpi_pm" || source == "jiffies" || source == "pit";
  return {
      {"clock source", source.empty() ? "unknown" : source, is_slow ? Verdict::kWarning : Verdict::kOk,
       "reading the clock takes a microsecond, so profilers show longer steps"},
      {"steady clock", steps_back == 0 ? "does not go back" : format("went back {} times", steps_back),
       steps_back == 0 ? Verdict::kOk : Verdict::kWrong, "times and time-outs are unreliable on this machine"},
      {"time of day", is_synchronized ? "synchronized" : "not synchronized", is_synchronized ? Verdict::kOk : Verdict::kWarning,
       "logs of several hosts do not match, and certificates may appear expired: run chrony or "
       "systemd-timesyncd (in a container, on its host)"}};
}

Findings environment_findings(const std::vector<std::string>& variables) {
  Findings found;
  for (const std::string& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    const auto is_this = [&](const auto& known) { return is_one_of(name, known.first); };
    if (std::ranges::none_of(environment_variables(), is_this)) continue;
    const std::string value = variable.substr(std::min(variable.size(), name.size() + 1));
    found.push_back({name, is_secret(name, value) ? "set (not shown)" : value.empty() ? "empty" : value});
  }
  std::ranges::sort(found, {}, &Finding::what);
  if (found.empty()) found.push_back({"variables", "none that affects levin"});
  return found;
}

}  // namespace levin::cli
