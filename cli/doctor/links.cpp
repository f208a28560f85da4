#include "levin/cli/doctor/links.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "levin/cli/sweep/child_process.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with its owner.
struct OwnFolder {
  OwnFolder() { fs::create_directory(path); }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  fs::path path = temporary_in(fs::temp_directory_path());
};

/// The child's exit status; nothing where it was ended because it took too long.
std::optional<int> wait_for(pid_t child, double seconds) {
  for (const double deadline = steady_seconds() + seconds; steady_seconds() < deadline;) {
    if (const std::optional<int> status = status_if_ended(child)) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(-child, SIGKILL);
  waitpid(child, nullptr, 0);
  return std::nullopt;
}

/// The columns group, collective, ranks, bytes, seconds, gb_per_second of the table, by group: what an all-reduce takes.
Findings times_in(const std::string& table) {
  struct Times {
    double latency = 0;      ///< seconds of the first, smallest one
    std::string throughput;  ///< of the last, largest one
  };
  std::map<std::string, Times> groups;
  for (const std::string& line : split(table, "\n")) {
    const std::vector<std::string> cells = split(line, ",");
    if (cells.size() < 6 || cells[1] != "all_reduce") continue;
    const auto [entry, is_first] = groups.try_emplace(cells[0]);
    if (is_first) entry->second.latency = parse_float(cells[4]).value_or(0);
    entry->second.throughput = cells[5];
  }
  Findings found;
  for (const auto& [group, times] : groups)
    found.push_back({group, format("all-reduce of two ranks: {:.1f} us for 1 KiB, {:.3g} GB/s for 4 MiB", times.latency * 1e6,
                                   parse_float(times.throughput).value_or(0))});
  if (!groups.contains("shared memory"))
    found.push_back({"shared memory", "not used between ranks", Verdict::kWarning,
                     "gradients on the CPU travel over Gloo, which is slower"});
  return found;
}

std::string numeric_address(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? text.data() : "?";
}

bool has_address(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

}  // namespace

std::vector<std::string> rank_bench() {
  std::vector<std::string> words = {"/usr/bin/env"};
  constexpr std::array kLeftOut = {"LEVIN_", "SLURM_",     "OMPI_",       "PMIX_",   "RANK=",        "WORLD_SIZE=",
                                   "LOCAL_", "NODE_RANK=", "GROUP_RANK=", "MASTER_", "TORCHELASTIC_"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const auto begins_it = [&](const char* beginning) { return variable.starts_with(beginning); };
    if (std::ranges::any_of(kLeftOut, begins_it)) words.insert(words.end(), {"-u", variable.substr(0, variable.find('='))});
  }
  for (const char* word : {"LEVIN_DEFAULT_CONFIG=", "bench", "comm", "--trainer.devices=2", "--trainer.accelerator=cpu",
                           "--min_bytes=1024", "--max_bytes=4194304"})
    words.emplace_back(word);
  words.insert(words.end() - 6, own_program().string());
  return words;
}

Findings rank_findings(const std::vector<std::string>& bench, double seconds) {
  const OwnFolder folder;
  const fs::path table = folder.path / "comm.csv";
  const fs::path output = folder.path / "output.txt";
  std::vector<std::string> words = bench;
  words.insert(words.end(), {"--csv", table.string()});
  const std::optional<int> status = wait_for(start_child(words, output), seconds);
  if (status == 0) return times_in(file_bytes(table).value_or(""));
  std::vector<std::string> lines = split(file_bytes(output).value_or(""), "\n");
  std::erase(lines, "");
  const std::string said = lines.empty() ? "" : format("; {}", lines.back());
  const std::string value =
      status ? format("two ranks ended with status {}", *status) : format("two ranks did not end within {:.0f} s", seconds);
  return {{"ranks", value + said, Verdict::kWrong,
           "no run on several ranks will work here: levin bench comm --trainer.devices=2 says more"}};
}

Findings interface_findings() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (has_address(entry->ifa_addr) && (entry->ifa_flags & IFF_UP) != 0)
        addresses.push_back(format("{} {}", entry->ifa_name, numeric_address(entry->ifa_addr)));
    }
  }
  const auto is_loopback = [](const std::string& address) { return address.starts_with("lo 127."); };
  const bool has_loopback = std::ranges::any_of(addresses, is_loopback);
  return {
      {"interfaces", addresses.empty() ? "none" : join(addresses), has_loopback ? Verdict::kOk : Verdict::kWarning,
       "there is no loopback (lo 127.0.0.1), over which ranks of a host find one another under torchrun: ip link set lo up"}};
}

Findings host_name_findings(const std::string& host, const std::vector<std::string>& addresses, const std::string& error) {
  if (!error.empty())
    return {{"host name", format("{} leads nowhere ({})", host, error), Verdict::kWarning,
             "what looks for this host by its name, such as torchrun's c10d and Gloo of other programs, waits or fails: add it "
             "to /etc/hosts, and "
             "give MASTER_ADDR as a number"}};
  const auto is_loopback = [](const std::string& address) { return address.starts_with("127.") || address == "::1"; };
  const bool leads_here_only = std::ranges::all_of(addresses, is_loopback);
  return {{"host name",
           format("{} is {}{}", host, join(addresses),
                  leads_here_only ? ": for runs on several hosts, MASTER_ADDR needs an address that the others reach" : "")}};
}

Findings own_host_name_findings() {
  const std::string host = host_name();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) return host_name_findings(host, {}, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (has_address(entry->ai_addr)) addresses.push_back(numeric_address(entry->ai_addr));
  }
  return host_name_findings(host, addresses, "");
}

}  // namespace levin::cli
