// Ranks of another launcher: they meet, or each ends in time and says what prevents it; and at which ports.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "strategies/support/child_program.h"
#include "strategies/support/odd_listener.h"
#include "support/temporary_folder.h"

using levin_test::ChildProgram;
using levin_test::Oddity;
using levin_test::OddListener;

namespace {

constexpr const char* kProgram = LEVIN_BINARY_DIR "/bin/strategies_distributed_program";
/// The ranks' own limit is two seconds; starting them on a busy machine takes some more.
constexpr auto kLimit = std::chrono::seconds(30);

struct Rank : ChildProgram {
  Rank(int rank, int ranks, int port, ChildProgram::Environment more = {}, const std::string& control_group = "auto")
      : ChildProgram({kProgram, "collectives", "0", control_group, "2"}, with(rank, ranks, port, std::move(more)),
                     levin_test::How::kCopied) {}

  static ChildProgram::Environment with(int rank, int ranks, int port, ChildProgram::Environment more) {
    more.insert(more.end(), {{"RANK", std::to_string(rank)},
                             {"WORLD_SIZE", std::to_string(ranks)},
                             {"LOCAL_RANK", "0"},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", std::to_string(port)},
                             {"OMP_NUM_THREADS", "1"}});
    return more;
  }
};

const ChildProgram::Environment kAgent = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}};

std::string beginning(int rank, int ranks, int port) {
  return "throws: rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
         " could not join the others at 127.0.0.1:" + std::to_string(port) + " (started by torchrun): ";
}

/// The program that simulates torchrun's agent, which may have garbage in its store.
struct Agent : ChildProgram {
  explicit Agent(int port, const std::string& garbage = "")
      : ChildProgram({kProgram, "agent", std::to_string(port), garbage}, {}, levin_test::How::kCopied) {
    REQUIRE(wait_for_output("serves"));
  }
};

/// The ports at which the process listens, over IPv4 and IPv6.
std::set<int> listening_ports(int process) {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::set<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string word;
      std::vector<std::string> fields;
      while (words >> word) fields.push_back(word);
      constexpr const char* kListens = "0A";
      if (fields.size() < 10 || fields[3] != kListens || !inodes.contains(fields[9])) continue;
      ports.insert(std::stoi(fields[1].substr(fields[1].find(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

}  // namespace

TEST_CASE("a rank does not wait for ever for whoever listens in place of torchrun's agent") {
  const auto oddity =
      GENERATE(Oddity::kSilent, Oddity::kSlowBytes, Oddity::kCloses, Oddity::kSendsGarbage, Oddity::kHugeLength);
  const OddListener listener(oddity);
  Rank rank(1, 2, listener.port(), kAgent);
  CHECK(rank.wait(kLimit) == 1);
  CHECK(rank.count(beginning(1, 2, listener.port())) == 1);
}

TEST_CASE("a rank does not wait for ever where nobody listens") {
  const auto environment = GENERATE(ChildProgram::Environment{}, kAgent);
  const int port = levin_test::free_port();
  Rank rank(1, 2, port, environment);
  CHECK(rank.wait(kLimit) == 1);
  CHECK(rank.count(beginning(1, 2, port)) == 1);
  if (environment.empty()) CHECK(rank.count("no answer from there for 2 s (Connection refused): is rank 0 running") == 1);
}

TEST_CASE("a rank that does not come is named by those that did") {
  const bool agent_serves = GENERATE(false, true);
  const int port = levin_test::free_port();
  std::unique_ptr<Agent> agent;
  if (agent_serves) agent = std::make_unique<Agent>(port);
  ChildProgram::Environment environment = agent_serves ? kAgent : ChildProgram::Environment{};
  environment.emplace_back("LOCAL_WORLD_SIZE", "1");
  Rank zero(0, 3, port, environment);
  Rank two(2, 3, port, environment);
  for (Rank* rank : {&zero, &two}) {
    CHECK(rank->wait(kLimit) == 1);
    CHECK(rank->count("rank 1 of host 1 did not come within 2 s") == 1);
  }
}

TEST_CASE("a run does not wait for ever for an agent of torchrun that is stopped") {
  const int port = levin_test::free_port();
  Agent agent(port);
  agent.send(SIGSTOP);
  Rank rank(1, 2, port, kAgent);
  CHECK(rank.wait(kLimit) == 1);
  CHECK(rank.count(beginning(1, 2, port) + "the server at 127.0.0.1:" + std::to_string(port) +
                   " did not answer within 2 s: it is stopped, or another program uses the port") == 1);
}

TEST_CASE("ranks meet over torchrun's agent, whatever others have put there, and with one token over rank 0") {
  const bool agent_serves = GENERATE(false, true);
  const std::string control_group = GENERATE("auto", "gloo");
  const int port = levin_test::free_port();
  std::unique_ptr<Agent> agent;
  if (agent_serves) agent = std::make_unique<Agent>(port, control_group == "gloo" ? "garbage" : "");
  const ChildProgram::Environment environment = agent_serves ? kAgent : ChildProgram::Environment{{"LEVIN_RUN_TOKEN", "right"}};
  Rank zero(0, 2, port, environment, control_group);
  Rank one(1, 2, port, environment, control_group);
  for (Rank* rank : {&zero, &one}) {
    CHECK(rank->wait(kLimit) == 0);
    CHECK(rank->count("good ") == 21);
  }
}

TEST_CASE("a run of one host has no port but Gloo's where it is asked for") {
  const levin::test::TemporaryFolder folder;
  const bool over_gloo = GENERATE(false, true);
  ChildProgram program({kProgram, "stay", "2", over_gloo ? "gloo" : "auto"},
                       {{"OMP_NUM_THREADS", "1"}, {"LEVIN_TEST_END", (folder / "end").string()}});
  REQUIRE(program.wait_for_output("is at work", 2));
  CHECK(listening_ports(program.process()).empty());
  const auto ranks = program.numbers_after("process ");
  REQUIRE(ranks.size() == 2);
  for (const int rank : ranks) {
    CHECK(listening_ports(rank).size() == (over_gloo ? 2 : 0));  // for gradients and for metrics
  }
  std::ofstream(folder / "end") << "now";
  CHECK(program.wait(2 * kLimit) == 0);
}
