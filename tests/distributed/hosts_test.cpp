// Several hosts, with levin started on each with NODE_RANK, MASTER_ADDR and MASTER_PORT: here all are one machine.
#include <catch2/catch.hpp>
#include <thread>

#include "distributed/failure_run.h"
#include "distributed/start_run.h"
#include "levin/core/base/error.h"
#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_server.h"
#include "strategies/support/odd_listener.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

constexpr int kConnectSeconds = 5;

/// One host of a case: what differs from the others, and what it must say.
struct Host {
  int node_rank = 0;
  std::vector<std::string> says;
  Environment environment = {};
  std::vector<std::string> settings = {};
};

struct Case {
  std::string name;
  std::vector<Host> hosts;
  bool in_sample = false;  ///< `make test` runs it too
  int num_nodes = 2;
  std::optional<levin_test::Oddity> listener = {};  ///< the port is in use
};

const std::string kMissing = " did not come within " + std::to_string(kConnectSeconds) + " s (connect_timeout_seconds)";

std::vector<Case> cases() {
  using levin_test::Oddity;
  const std::vector<std::string> twice = {"two processes say that they are rank 1: process ",
                                          "give each host its own NODE_RANK"};
  return {
      {.name = "a missing peer", .hosts = {{0, {"rank 1 of host 1" + kMissing}}}, .in_sample = true},
      {.name = "two of three, of which both say who is missing",
       .hosts = {{0, {"rank 2 of host 2" + kMissing}}, {1, {"rank 2 of host 2" + kMissing}}},
       .num_nodes = 3},
      {.name = "a master that nobody is",
       .hosts = {{1, {"rank 1 of 2 could not join the others at 127.0.0.1:", "no answer from there for"}}}},
      {.name = "a master that cannot be reached",
       .hosts = {{1, {"could not join the others at 192.0.2.1:", "no answer from there for"}, {{"MASTER_ADDR", "192.0.2.1"}}}}},
      {.name = "a master whose name leads nowhere",
       .hosts = {{1, {"the name no-such-host.invalid could not be looked up"}, {{"MASTER_ADDR", "no-such-host.invalid"}}}}},
      {.name = "a port in use, and a silent master",
       .hosts = {{0, {"rank 0 cannot listen at 127.0.0.1:", "Address already in use. Another program uses the port"}},
                 {1, {"the server there did not answer within 5 s: another program may use the port"}}},
       .in_sample = true,
       .listener = Oddity::kSilent},
      {.name = "a master that speaks another language",
       .hosts = {{1, {"the server there is not a rank of levin"}}},
       .listener = Oddity::kSendsGarbage},
      {.name = "a second process with the same rank",
       .hosts = {{0, twice}, {1, twice}, {1, twice}},
       .in_sample = true,
       .num_nodes = 3},
      {.name = "hosts with different numbers of ranks",
       .hosts = {{0, {"rank 1 of host 1" + kMissing, "it says that it is rank "}},
                 {1, {"rank 0 refused: its run has 2 ranks, and this is rank "}, {}, {"ranks=2"}}}},
      {.name = "different tokens",
       .hosts = {{0, {"it does not know the run's token", kMissing}, {{"LEVIN_RUN_TOKEN", "one"}}},
                 {1, {"LEVIN_RUN_TOKEN is not the one that rank 0 has"}, {{"LEVIN_RUN_TOKEN", "other"}}}},
       .in_sample = true},
      {.name = "different configurations",
       .hosts = {{0, {"Ranks were started with different options", "width"}},
                 {1, {"Ranks were started with different options", "width"}, {}, {"width=16"}}},
       .in_sample = true},
      {.name = "different data",
       .hosts = {{0, {"it has 24 samples on rank 0 (", ") and 26 on rank 1 ("}},
                 {1, {"it has 24 samples on rank 0 (", ") and 26 on rank 1 ("}, {}, {"samples=26"}}}},
      {.name = "another version of the data",
       .hosts = {{0, {"its data on rank 1 ("}}, {1, {"its data on rank 1 ("}, {}, {"scale=2"}}},
       .in_sample = true},
      {.name = "a rank that is killed",
       .hosts = {{0, {"levin: rank 1 failed ", ": its process ended in the middle of the run", "rank 0 ended "}},
                 {1, {"levin: rank 1 failed in training_step (train, epoch 0, step 2): its process was killed by signal 9"}}},
       .in_sample = true},
      {.name = "an error of one rank",
       .hosts = {{0, {"levin: rank 1 failed in training_step (train, epoch 0, step 2): the sensor returned garbage"}},
                 {1, {"levin: rank 1 failed in training_step (train, epoch 0, step 2): the sensor returned garbage"}}}},
  };
}

std::vector<Outcome> run_case(const Case& tested, const std::filesystem::path& folder) {
  std::optional<levin_test::OddListener> listener;
  if (tested.listener) listener.emplace(*tested.listener);
  const int port = listener ? listener->port() : free_port();
  std::vector<Command> commands;
  for (const Host& host : tested.hosts) {
    std::vector<std::string> settings = {"ranks=1", "num_nodes=" + std::to_string(tested.num_nodes),
                                         "connect_timeout=" + std::to_string(kConnectSeconds)};
    if (tested.name == "a rank that is killed") settings.emplace_back("fail=0:1:3:sigkill");
    if (tested.name == "an error of one rank") settings.emplace_back("fail=0:1:3:throw");
    settings.insert(settings.end(), host.settings.begin(), host.settings.end());
    Environment environment = host_environment(host.node_rank, port);
    environment.insert(environment.end(), host.environment.begin(), host.environment.end());
    commands.push_back(start_command(folder, settings, environment));
  }
  return run_together(commands);
}

}  // namespace

TEST_CASE("whatever keeps hosts from meeting is a clear error on each of them, in time") {
  for (const Case& tested : cases()) {
    if (!tested.in_sample && !is_whole_matrix()) continue;
    const TemporaryFolder folder;
    const std::vector<Outcome> outcomes = run_case(tested, folder.path());
    INFO(tested.name << "\n" << text_of(outcomes));
    for (std::size_t index = 0; index < outcomes.size(); ++index) {
      CHECK_FALSE(outcomes[index].timed_out);
      CHECK(outcomes[index].status != 0);
      for (const std::string& text : tested.hosts[index].says) CHECK_THAT(outcomes[index].err, Catch::Contains(text));
    }
  }
}

TEST_CASE("variables that leave a host's place open, or contradict what is asked for, start nothing") {
  const auto [environment, text] = GENERATE(table<Environment, std::string>({
      {{{"NODE_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}},
       "num_nodes: 2: each host must know its number and rank 0, but not set: MASTER_PORT."},
      {Environment{}, "not set: NODE_RANK, MASTER_ADDR, MASTER_PORT."},
      {{{"NODE_RANK", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}},
       "environment variable NODE_RANK=2 contradicts num_nodes: 2; hosts count from 0"},
      {{{"NODE_RANK", "0"}, {"GROUP_RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}},
       "environment variables contradict each other: GROUP_RANK=1 but NODE_RANK=0"},
      {{{"NODE_RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}},
       "environment variable WORLD_SIZE=3 contradicts num_nodes: 2 with 1 rank on each, which are 2"},
      {{{"NODE_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT='70000'"},
  }));
  const TemporaryFolder folder;
  const Outcome outcome = run(start_command(folder.path(), {"ranks=1", "num_nodes=2"}, environment));
  INFO(outcome.text());
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Catch::Contains(text));
}

TEST_CASE("hosts train as one does, with each of them told apart, and start again together") {
  const TemporaryFolder folder;
  const int port = free_port();
  std::vector<Command> commands;
  for (int host = 0; host < 2; ++host) {
    commands.push_back(start_command(folder.path(), {"ranks=1", "num_nodes=2", "max_restarts=1", "fail=0:1:5:sigkill"},
                                     host_environment(host, port)));
  }
  const std::vector<Outcome> outcomes = run_together(commands);
  INFO(text_of(outcomes));
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.ok());
    CHECK(count(outcome.err, "levin: rank 1 failed ") == 1);
    CHECK(count(outcome.err, "levin: restarting the run, attempt 2 of 2, because rank 1 failed ") == 1);
  }
  CHECK_THAT(outcomes[0].out, Catch::Contains("ranks: 2 (ddp, metrics over gloo, gradients over gloo), attempt 2"));
  CHECK_THAT(outcomes[1].out, Catch::Contains("[rank 1] ") && !Catch::Contains("[rank 0] "));
  CHECK(left_by(folder.path()) == left_undisturbed());
}

TEST_CASE("another build of levin or LibTorch is told on both sides") {
  const std::string other = "levin 0.0.9, LibTorch 1.0.0";
  const TemporaryFolder folder;
  const int port = free_port();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::vector<std::string> settings = {"ranks=1", "num_nodes=2", "connect_timeout=30"};
  SECTION("rank 0's, when another comes") {
    std::string refusal;
    std::thread stranger([&] {
      try {
        const StoreMember member{.rank = 1, .world_size = 2, .build = other, .process = "process 1 on far"};
        const StoreClient client(tcp_address("127.0.0.1", port), member, deadline);
      } catch (const Error& error) {
        refusal = error.what();
      }
    });
    const Outcome outcome = run(start_command(folder.path(), settings, host_environment(0, port)));
    stranger.join();
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    for (const std::string& text : {outcome.err, refusal}) {
      CHECK_THAT(text, Catch::Contains("runs " + other + ", and rank 0 runs levin ") && Catch::Contains("install the same"));
    }
  }
  SECTION("another's, when rank 0 is older") {
    StoreServer::Settings server{.world_size = 2, .build = other};
    server.print = [](const std::string&) {};
    const StoreServer store(server, listen_at("127.0.0.1", port), Descriptor());
    const Outcome outcome = run(start_command(folder.path(), settings, host_environment(1, port)));
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, Catch::Contains(", and rank 0 runs " + other + ": install the same on all hosts"));
  }
}

}  // namespace levin::test
