#include "distributed/own_network.h"

#include <unistd.h>

#include <atomic>

namespace levin::test {

namespace {

constexpr const char* kDevice = "wire";

Outcome ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  return run({.arguments = std::move(arguments)});
}

std::string new_name() {
  static std::atomic<int> networks{0};
  return "lv" + std::to_string(getpid() % 1'000'000) + "n" + std::to_string(networks++ % 100) + "h";
}

}  // namespace

OwnNetwork::OwnNetwork() : name_(new_name()), hindrance_(make()) {}

OwnNetwork::~OwnNetwork() {
  if (!has_program("ip")) return;
  for (const int host : {0, 1}) ip({"netns", "del", name(host)});
}

std::string OwnNetwork::make() const {
  if (!has_program("ip")) return "ip is not installed";
  for (const int host : {0, 1}) {
    const Outcome made = ip({"netns", "add", name(host)});
    if (!made.ok()) return "this user may make no network: " + made.err;
  }
  const Outcome link =
      ip({"link", "add", kDevice, "netns", name(0), "type", "veth", "peer", "name", kDevice, "netns", name(1)});
  if (!link.ok()) return "no link can be made between networks: " + link.err;
  for (const int host : {0, 1}) {
    for (const auto& arguments :
         std::vector<std::vector<std::string>>{{"-n", name(host), "addr", "add", address(host) + "/24", "dev", kDevice},
                                               {"-n", name(host), "link", "set", kDevice, "up"},
                                               {"-n", name(host), "link", "set", "lo", "up"}}) {
      const Outcome outcome = ip(arguments);
      if (!outcome.ok()) return "the network cannot be set up: " + outcome.err;
    }
  }
  return "";
}

Command OwnNetwork::on(int host, Command command) const {
  return under({"ip", "netns", "exec", name(host)}, std::move(command));
}

bool OwnNetwork::cut() const { return ip({"-n", name(1), "link", "set", kDevice, "down"}).ok(); }

}  // namespace levin::test
