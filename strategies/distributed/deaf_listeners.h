#pragma once

#include <set>

namespace levin {

/// Makes sockets that a library begins to listen at deaf once they are not needed any more: the kernel drops whatever comes,
/// and the library is not woken. They stay the library's own, which may close them as ever. Gloo listens for as long as a
/// process lives, believes whoever connects, and ends the process when no descriptor is left for a connection.
class DeafListeners {
 public:
  /// Sockets that listen already are not meant.
  DeafListeners();
  /// Called: when all connections that are wanted are there.
  void deafen() const;

 private:
  std::set<int> before_;
};

}  // namespace levin
