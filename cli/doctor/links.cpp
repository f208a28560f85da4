#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "levin/cli/doctor/findings.h"
#include "levin/cli/sweep/child_process.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
namespace {

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

/// What an all-reduce takes, by group, of a table with the columns group, collective, size, time and GB/s.
Findings times_in(const std::vector<std::string>& lines) {
  std::map<std::string, std::pair<std::string, std::string>> groups;  ///< time of the first, smallest; GB/s of the last
  for (const std::string& line : lines) {
    std::vector<std::string> cells = split(line, "|");
    for (std::string& cell : cells) {
      cell.erase(0, cell.find_first_not_of(' '));
      cell.erase(cell.find_last_not_of(' ') + 1);
    }
    if (cells.size() < 5 || !cells[1].starts_with("all_reduce")) continue;
    groups.try_emplace(cells[0], cells[3], "").first->second.second = cells[4];
  }
  Findings found;
  for (const auto& [group, times] : groups)
    found.push_back({group, format("all-reduce of two ranks: {} for 1 KiB, {} GB/s for 4 MiB", times.first, times.second)});
  if (!groups.contains("shared memory"))
    found.push_back({"shared memory", "not used between ranks", Verdict::kWarning,
                     "gradients on the CPU travel over Gloo, which is slower"});
  return found;
}

/// "10.0.0.7"; empty of what is not an address of the Internet.
std::string numeric_address(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return "";
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? text.data() : "";
}

}  // namespace

std::vector<std::string> rank_bench() {
  std::vector<std::string> words = {"/usr/bin/env", "-i", "LEVIN_DEFAULT_CONFIG="};
  for (const char* kept :
       {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "LEVIN_TORCH", "LEVIN_CACHE", "GLOO_SOCKET_IFNAME"}) {
    if (const char* value = std::getenv(kept)) words.push_back(format("{}={}", kept, value));
  }
  words.push_back(own_program());
  words.insert(words.end(), {"bench", "comm", "--trainer.devices=2", "--trainer.accelerator=cpu", "--min_bytes=1024",
                             "--max_bytes=4194304"});
  return words;
}

Ended ended_program(const std::vector<std::string>& words, double seconds) {
  // No file of a folder, which may not be one to write to.
  const Descriptor output(memfd_create("levin", MFD_CLOEXEC));
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Ended ended;
  ended.status = wait_for(start_child(words, nothing.number(), output.number(), output.number()), seconds);
  ended.lines = split(file_bytes(format("/proc/self/fd/{}", output.number())).value_or(""), "\n");
  std::erase(ended.lines, "");
  return ended;
}

Findings rank_findings(const std::vector<std::string>& bench, double seconds) {
  const auto [status, lines] = ended_program(bench, seconds);
  const std::string said = lines.empty() ? "without any output" : lines.front();  // the first failure
  if (status == 0) return times_in(lines);
  const std::string end = status ? format("ended with status {}", *status) : format("did not end within {} s", seconds);
  return {{"ranks", format("two ranks {}: {}", end, said), Verdict::kWrong,
           "runs on several ranks fail on this machine: levin bench comm --trainer.devices=2 shows why"}};
}

Findings interface_findings() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  getifaddrs(&list);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string address = (entry->ifa_flags & IFF_UP) != 0 ? numeric_address(entry->ifa_addr) : "";
    if (!address.empty()) addresses.push_back(format("{} {}", entry->ifa_name, address));
  }
  return {{"interfaces", addresses.empty() ? "none" : join(addresses), addresses.empty() ? Verdict::kWrong : Verdict::kOk,
           "ranks that another launcher starts need at least lo to connect: ip link set lo up"}};
}

Findings host_name_findings(const std::string& host, const std::vector<std::string>& addresses, const std::string& error) {
  if (!error.empty())
    return {{"host name", format("{} cannot be resolved ({})", host, error), Verdict::kWarning,
             "programs that look this host up by its name, such as torchrun and Gloo, wait or fail: add "
             "it to /etc/hosts, and give MASTER_ADDR as a number"}};
  const auto is_loopback = [](const std::string& address) { return address.starts_with("127.") || address == "::1"; };
  const char* const note =
      std::ranges::all_of(addresses, is_loopback) ? "; runs on several hosts need another address in MASTER_ADDR" : "";
  return {{"host name", format("{} is {}{}", host, join(addresses), note)}};
}

Findings own_host_name_findings() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host_name().c_str(), nullptr, &hints, &list);
  if (error != 0) return host_name_findings(host_name(), {}, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
    addresses.push_back(numeric_address(entry->ai_addr));
  return host_name_findings(host_name(), addresses, "");
}

}  // namespace levin::cli
