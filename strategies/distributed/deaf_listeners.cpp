#include "levin/strategies/distributed/deaf_listeners.h"

#include <linux/filter.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>

#include "levin/core/base/format.h"
#include "levin/core/console/console.h"

namespace levin {

namespace {

bool listens(int descriptor) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value != 0;
}

/// None where /proc cannot be read: this is a second line of defence, and no reason to end a run.
std::set<std::pair<int, ino_t>> open_descriptors() {
  std::set<std::pair<int, ino_t>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int descriptor = std::stoi(entry.path().filename().string());
    struct stat status {};
    if (fstat(descriptor, &status) == 0) found.emplace(descriptor, status.st_ino);
  }
  return found;
}

/// The kernel drops every packet that would begin a connection.
bool drop_packets(int socket) {
  sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &nothing};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

/// The sockets that an epoll set waits for, with what it tells of each; none of any other descriptor.
std::map<int, std::uint64_t> waited_for(int set) {
  std::map<int, std::uint64_t> found;
  std::ifstream info(format("/proc/self/fdinfo/{}", set));
  for (std::string line; std::getline(info, line);) {
    std::istringstream words(line);
    std::string name;
    std::string events;
    std::string data;
    int target = -1;
    // "tfd:       19 events:       19 data:     7f2a80000b60 …"
    if (!(words >> name >> target >> name >> events >> name >> data) || name != "data:") continue;
    found[target] = std::stoull(data, nullptr, 16);
  }
  return found;
}

/// Nobody waits for events of the socket any more, but it can be taken out of the set of those that are waited for as ever.
bool silence(int set, int socket, std::uint64_t data) {
  epoll_event none{};
  none.data.u64 = data;
  return epoll_ctl(set, EPOLL_CTL_MOD, socket, &none) == 0;
}

}  // namespace

DeafListeners::DeafListeners() : before_(open_descriptors()) {}

void DeafListeners::deafen() const {
  const auto is_new = [this](const std::pair<int, ino_t>& descriptor) { return !before_.contains(descriptor); };
  const auto now = open_descriptors();
  for (const auto& set : now) {
    if (!is_new(set)) continue;
    for (const auto& [socket, data] : waited_for(set.first)) {
      const auto listener =
          std::find_if(now.begin(), now.end(), [number = socket](const auto& entry) { return entry.first == number; });
      if (listener == now.end() || !is_new(*listener) || !listens(socket)) continue;
      const bool dropped = drop_packets(socket);
      if (!silence(set.first, socket, data) || !dropped) {
        rank_warn_once(
            "Gloo's port stays open for connections, since the kernel refuses to close it to others (docs/security.md).");
      }
    }
  }
}

}  // namespace levin
