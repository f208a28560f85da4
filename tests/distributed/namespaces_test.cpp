// Two hosts with a network of their own: what happens when the link is slow, loses packets, or is cut.
#include <catch2/catch.hpp>
#include <thread>

#include "distributed/failure_run.h"
#include "distributed/own_network.h"
#include "distributed/start_run.h"
#include "strategies/support/child_program.h"
#include "support/file_text.h"
#include "support/matrix_report.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

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

Left on_one_host() {
  const TemporaryFolder folder;
  const Outcome outcome = run(start_command(folder.path(), {"ranks=2"}));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return left_by(folder.path());
}

}  // namespace

TEST_CASE("hosts start, train and fail over a link that is slow or loses packets") {
  const std::vector<std::string> links = MatrixReport::whole()
                                             ? std::vector<std::string>{"", "delay 200ms", "loss 5%", "delay 200ms loss 5%"}
                                             : std::vector<std::string>{""};
  for (const std::string& link : links) {
    INFO("link: " << link);
    const OwnNetwork network;
    if (!is_there(network)) return;
    if (!link.empty() && !network.impair(link)) {
      WARN("not tested: this kernel has no netem");
      return;
    }
    {
      const TemporaryFolder folder;
      const std::vector<Outcome> outcomes = run_together(commands(network, folder, {}));
      INFO(text_of(outcomes));
      for (const Outcome& outcome : outcomes) CHECK(outcome.ok());
      CHECK(left_by(folder.path()) == on_one_host());
    }
    for (const std::string manner : {"throw", "sigkill"}) {
      if (!MatrixReport::whole()) continue;
      const TemporaryFolder folder;
      const std::vector<Outcome> outcomes = run_together(commands(network, folder, {"fail=0:1:3:" + manner}));
      INFO(manner << "\n" << text_of(outcomes));
      for (const Outcome& outcome : outcomes) {
        CHECK(outcome.status != 0);
        CHECK_FALSE(outcome.timed_out);
        CHECK_THAT(outcome.err, Catch::Contains("levin: rank 1 failed in "));
      }
    }
  }
}

TEST_CASE("a link that is cut ends the run on both sides, and each names the host that it cannot reach") {
  const OwnNetwork network;
  if (!is_there(network)) return;
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<levin_test::ChildProgram>> hosts;
  for (const Command& command : commands(network, folder, {"epochs=100000", "save_every=0", "timeout=4"})) {
    std::vector<std::string> arguments = command.arguments;
    arguments.insert(arguments.begin(), "/usr/bin/env");
    hosts.push_back(std::make_unique<levin_test::ChildProgram>(arguments, command.environment));
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
    CHECK_THAT(output, Catch::Contains("the connection to host " + OwnNetwork::address(1 - host) + " was lost"));
  }
}

}  // namespace levin::test
