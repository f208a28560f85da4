// Two hosts with separate networks: what happens when the link between them is cut.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "distributed/failure_run.h"
#include "distributed/start_run.h"
#include "strategies/support/child_program.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

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

/// Two hosts with a link between them, as network namespaces of this machine: 10.77.0.1 and 10.77.0.2. Removed with this
/// object.
class OwnNetwork {
 public:
  OwnNetwork();
  ~OwnNetwork();
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;

  /// Why there are none: a program or a permission is missing; "" if they exist.
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

constexpr int kPort = 29555;

/// Both hosts' commands, which write to one folder, as hosts that share a disk.
std::vector<Command> commands(const OwnNetwork& network, const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<Command> both;
  for (const int host : {0, 1}) {
    std::vector<std::string> settings = {"ranks=1", "num_nodes=2", "connect_timeout=30"};
    settings.insert(settings.end(), more.begin(), more.end());
    both.push_back(
        network.on(host, start_command(folder.path(), settings, host_environment(host, kPort, OwnNetwork::address(0)))));
  }
  return both;
}

bool is_there(const OwnNetwork& network) {
  if (!network.hindrance().empty()) WARN("not tested: " << network.hindrance());
  return network.hindrance().empty();
}

}  // namespace

TEST_CASE("hosts with networks of their own train to the same weights as one host, and tell a failure on both") {
  const OwnNetwork network;
  if (!is_there(network)) return;
  const TemporaryFolder folder;
  const std::vector<std::string> settings = {"epochs=1", "samples=8", "save_every=0"};
  const std::vector<Outcome> whole = run_together(commands(network, folder, settings));
  INFO(text_of(whole));
  for (const Outcome& outcome : whole) CHECK(outcome.ok());
  CHECK(left_by(folder.path()) == left_undisturbed(settings));
  for (const std::string manner : {"throw", "sigkill"}) {
    const TemporaryFolder failing;
    const std::vector<Outcome> failed = run_together(commands(network, failing, {"fail=0:1:3:" + manner}));
    INFO(manner << "\n" << text_of(failed));
    for (const Outcome& outcome : failed) {
      CHECK(outcome.status != 0);
      CHECK_FALSE(outcome.timed_out);
      // Only its own host is sure to know where it was.
      CHECK_THAT(outcome.err, Catch::Contains("levin: rank 1 failed "));
    }
  }
}

TEST_CASE("hosts between which no packet arrives each say so") {
  const OwnNetwork network;
  if (!is_there(network)) return;
  REQUIRE(network.cut());
  const TemporaryFolder folder;
  const std::vector<Outcome> outcomes = run_together(commands(network, folder, {"connect_timeout=3"}));
  INFO(text_of(outcomes));
  for (const Outcome& outcome : outcomes) CHECK(outcome.status == 1);
  CHECK_THAT(outcomes[0].err, Catch::Contains("rank 1 of host 1 did not come within 3 s"));
  CHECK_THAT(outcomes[1].err, Catch::Contains("could not join the others at " + OwnNetwork::address(0)));
}

TEST_CASE("a link that is cut ends the run on both sides, and each names the rank that it cannot reach") {
  const OwnNetwork network;
  if (!is_there(network)) return;
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<levin_test::ChildProgram>> hosts;
  for (const Command& command : commands(network, folder, {"epochs=100000", "save_every=0", "timeout=4"})) {
    hosts.push_back(std::make_unique<levin_test::ChildProgram>(command));
  }
  const std::filesystem::path rows = folder / "logs/version_0/metrics.csv";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(rows) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(network.cut());
  for (const int host : {0, 1}) {
    const int status = hosts[static_cast<std::size_t>(host)]->wait(std::chrono::seconds(60));
    const std::string output = hosts[static_cast<std::size_t>(host)]->output();
    INFO("host " << host << "\n" << output);
    CHECK(status == 1);
    CHECK_THAT(output, Catch::Contains("rank " + std::to_string(1 - host) + " failed "));
  }
}

}  // namespace levin::test
