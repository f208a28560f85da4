// Two hosts with networks of their own: what happens when the link between them is cut.
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "distributed/failure_run.h"
#include "distributed/own_network.h"
#include "distributed/start_run.h"
#include "strategies/support/child_program.h"
#include "support/file_text.h"
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

Left on_one_host(const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  std::vector<std::string> settings = {"ranks=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  const Outcome outcome = run(start_command(folder.path(), settings));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return left_by(folder.path());
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
  CHECK(left_by(folder.path()) == on_one_host(settings));
  for (const std::string manner : {"throw", "sigkill"}) {
    const TemporaryFolder failing;
    const std::vector<Outcome> failed = run_together(commands(network, failing, {"fail=0:1:3:" + manner}));
    INFO(manner << "\n" << text_of(failed));
    for (const Outcome& outcome : failed) {
      CHECK(outcome.status != 0);
      CHECK_FALSE(outcome.timed_out);
      // Where it was, only its own host knows in any case.
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
    CHECK_THAT(output, Catch::Contains("rank " + std::to_string(1 - host) + " failed "));
  }
}

}  // namespace levin::test
