#include "levin/strategies/failure/lost_links.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace levin {

namespace {

constexpr auto kBetweenLinkLooks = std::chrono::milliseconds(100);
/// So many packets in a row without an answer. A host that is there answers for its programs, also when they are stopped.
constexpr int kUnanswered = 2;

/// The address at the other end of a TCP connection that leaves this host.
std::optional<std::string> remote_host(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_LOOPBACK(&ipv6.sin6_addr)) return std::nullopt;
    inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
  } else {
    return std::nullopt;
  }
  std::string host = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  if (host.starts_with(kMapped)) host.erase(0, kMapped.size());
  return host.starts_with("127.") ? std::nullopt : std::optional(host);
}

/// A connection of this process. It is kept open meanwhile, whoever else closes it.
class Link {
 public:
  Link(int descriptor, std::string host) : descriptor_(fcntl(descriptor, F_DUPFD_CLOEXEC, 3)), host_(std::move(host)) {
    // A quiet connection shows nothing: from now on the kernel asks the other host every second.
    const int on = 1;
    const int second = 1;
    const int times = 100;
    setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
    setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
  }
  ~Link() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Link(Link&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), host_(std::move(other.host_)) {}
  Link& operator=(Link&&) = delete;

  const std::string& host() const { return host_; }
  bool is_unanswered() const {
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != TCP_ESTABLISHED) return false;
    return std::max<int>(info.tcpi_probes, info.tcpi_retransmits) >= kUnanswered;
  }

 private:
  int descriptor_;
  std::string host_;
};

std::vector<Link> links() {
  std::vector<Link> found;
  std::vector<int> descriptors;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    descriptors.push_back(descriptor);
  }
  for (const int descriptor : descriptors) {
    if (auto host = remote_host(descriptor)) found.emplace_back(descriptor, std::move(*host));
  }
  return found;
}

}  // namespace

std::vector<std::string> unanswering_hosts(std::chrono::milliseconds patience) noexcept {
  try {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const std::vector<Link> connections = links();
    std::vector<std::string> hosts;
    while (!connections.empty() && hosts.empty() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kBetweenLinkLooks);
      for (const Link& link : connections) {
        const bool is_known = std::find(hosts.begin(), hosts.end(), link.host()) != hosts.end();
        if (!is_known && link.is_unanswered()) hosts.push_back(link.host());
      }
    }
    return hosts;
  } catch (const std::exception&) {
    return {};  // Out of memory, or of descriptors: nothing is known.
  }
}

std::string lost_connection_text(const std::vector<std::string>& hosts) {
  if (hosts.empty()) return "";
  std::string text = hosts.size() == 1 ? "the connection to host " : "the connections to hosts ";
  for (std::size_t i = 0; i < hosts.size(); ++i) text += (i == 0 ? "" : ", ") + hosts[i];
  return text + (hosts.size() == 1 ? " was lost" : " were lost");
}

}  // namespace levin
