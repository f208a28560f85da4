#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

namespace levin {

/// Makes sockets that a library begins to listen at deaf once they are not needed any more: the kernel drops whatever comes,
/// and the library is not woken. They stay the library's own, which may close them as ever. Gloo listens for as long as a
/// process lives, believes whoever connects, and ends the process when no descriptor is left for a connection.
/// Meant are sockets that began to listen after the constructor and are waited for in an epoll set that is as new: a server
/// that the user's program starts meanwhile, with a set of its own from before or without one, stays as it is.
class DeafListeners {
 public:
  DeafListeners();
  /// Called: when all connections that are wanted are there.
  void deafen() const;

 private:
  std::set<std::pair<int, ino_t>> before_;  ///< descriptors, each with what it is of: numbers are used again
};

}  // namespace levin
