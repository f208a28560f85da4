#include "levin/strategies/distributed/deaf_listeners.h"

#include <linux/filter.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace levin {

namespace {

bool listens(int descriptor) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value != 0;
}

std::set<int> open_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.insert(std::stoi(entry.path().filename().string()));
  }
  return found;
}

std::set<int> listening_sockets() {
  std::set<int> found = open_descriptors();
  std::erase_if(found, [](int descriptor) { return !listens(descriptor); });
  return found;
}

/// The kernel drops every packet that would begin a connection.
void drop_packets(int socket) {
  sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &nothing};
  setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/// Nobody waits for events of the socket any more, but it can be taken out of the set of those that are waited for as ever.
void silence(int set, int socket) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(set));
  for (std::string line; std::getline(info, line);) {
    std::istringstream words(line);
    std::string name;
    std::string events;
    std::string data;
    int target = -1;
    // "tfd:       19 events:       19 data:     7f2a80000b60 …"
    if (!(words >> name >> target >> name >> events >> name >> data) || target != socket || name != "data:") continue;
    epoll_event none{};
    none.data.u64 = std::stoull(data, nullptr, 16);
    epoll_ctl(set, EPOLL_CTL_MOD, socket, &none);
  }
}

}  // namespace

DeafListeners::DeafListeners() : before_(listening_sockets()) {}

void DeafListeners::deafen() const {
  std::set<int> begun = listening_sockets();
  std::erase_if(begun, [&](int socket) { return before_.contains(socket); });
  for (const int socket : begun) {
    drop_packets(socket);
    for (const int set : open_descriptors()) silence(set, socket);
  }
}

}  // namespace levin
