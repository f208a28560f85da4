#pragma once

#include <string>

#include "distributed/start_run.h"

namespace levin::test {

/// Two hosts with a link between them, as network namespaces of this machine: 10.77.0.1 and 10.77.0.2. They are gone with this
/// object.
class OwnNetwork {
 public:
  OwnNetwork();
  ~OwnNetwork();
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;

  /// Why there is none: a program or the right is missing; "" when it is there.
  const std::string& hindrance() const { return hindrance_; }
  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }
  /// The command as host 0 or 1 runs it.
  Command on(int host, Command command) const;
  /// Takes host 1's end of the link down.
  bool cut() const;

 private:
  std::string make() const;
  std::string name(int host) const { return name_ + std::to_string(host); }

  std::string name_;
  std::string hindrance_;
};

}  // namespace levin::test
