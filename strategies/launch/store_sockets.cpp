#include "levin/strategies/launch/store_sockets.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

StoreSockets::StoreSockets() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw IoError(format("the ranks cannot be started: socketpair failed: {}", std::strerror(errno)));
  }
  server_ = ends[0];
  clients_ = ends[1];
}

StoreSockets::~StoreSockets() {
  close(server_);
  close(clients_);
}

}  // namespace levin
