#include "distributed/own_network.h"

#include <unistd.h>

#include <atomic>

namespace levin::test {

namespace {

Outcome ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  return run({.arguments = std::move(arguments)});
}

std::string new_name() {
  static std::atomic<int> networks{0};
  // Names of interfaces have fifteen letters.
  return "lv" + std::to_string(getpid() % 1'000'000) + "n" + std::to_string(networks++ % 100) + "h";
}

}  // namespace

OwnNetwork::OwnNetwork() : name_(new_name()), hindrance_(make()) {}

OwnNetwork::~OwnNetwork() {
  if (!has_program("ip")) return;
  for (const int host : {0, 1}) ip({"netns", "del", name(host)});
}

std::string OwnNetwork::make() const {
  for (const char* program : {"ip", "tc"}) {
    if (!has_program(program)) return std::string(program) + " is not installed";
  }
  for (const int host : {0, 1}) {
    const Outcome made = ip({"netns", "add", name(host)});
    if (!made.ok()) return "this user may make no network: " + made.err;
  }
  const Outcome link =
      ip({"link", "add", name(0), "netns", name(0), "type", "veth", "peer", "name", name(1), "netns", name(1)});
  if (!link.ok()) return "no link can be made between networks: " + link.err;
  for (const int host : {0, 1}) {
    for (const auto& arguments :
         std::vector<std::vector<std::string>>{{"-n", name(host), "addr", "add", address(host) + "/24", "dev", name(host)},
                                               {"-n", name(host), "link", "set", name(host), "up"},
                                               {"-n", name(host), "link", "set", "lo", "up"}}) {
      const Outcome outcome = ip(arguments);
      if (!outcome.ok()) return "the network cannot be set up: " + outcome.err;
    }
  }
  return "";
}

Command OwnNetwork::on(int host, Command command) const {
  command.arguments.insert(command.arguments.begin(), {"ip", "netns", "exec", name(host)});
  return command;
}

bool OwnNetwork::impair(const std::string& how) const {
  for (const int host : {0, 1}) {
    const Outcome outcome =
        run({.arguments = {"sh", "-c", "tc -n " + name(host) + " qdisc add dev " + name(host) + " root netem " + how}});
    if (!outcome.ok()) return false;
  }
  return true;
}

bool OwnNetwork::cut() const { return ip({"-n", name(1), "link", "set", name(1), "down"}).ok(); }

}  // namespace levin::test
