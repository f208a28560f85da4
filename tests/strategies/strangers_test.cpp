// What another user of the machine can reach of a run while it works, and what he can do there.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "strategies/support/child_program.h"
#include "strategies/support/odd_listener.h"
#include "support/temporary_folder.h"

using levin::test::TemporaryFolder;
using levin_test::ChildProgram;

namespace {

constexpr const char* kProgram = LEVIN_BINARY_DIR "/bin/strategies_distributed_program";
constexpr auto kLimit = std::chrono::seconds(60);

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

int begin_connecting(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int status = connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  REQUIRE((status == 0 || errno == EINPROGRESS));
  return connection;
}

bool is_connected(int connection, int milliseconds) {
  pollfd entry{connection, POLLOUT, 0};
  return poll(&entry, 1, milliseconds) > 0 && (entry.revents & (POLLERR | POLLHUP)) == 0;
}

long resident_megabytes(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  long size = 0;
  long resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) / (1 << 20);
}

/// Connections of strangers, each with a beginning of its own.
class Strangers {
 public:
  Strangers(int port, int count) {
    for (int i = 0; i < count; ++i) {
      connections_.push_back(begin_connecting(port));
      if (!is_connected(connections_.back(), 10'000)) continue;
      const std::string text = i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : i % 3 == 1 ? std::string("LEVS\xff\xff\xff\x7f", 8) : "";
      [[maybe_unused]] const ssize_t sent = send(connections_.back(), text.data(), text.size(), MSG_NOSIGNAL);
    }
  }
  ~Strangers() {
    for (const int connection : connections_) close(connection);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

 private:
  std::vector<int> connections_;
};

}  // namespace

TEST_CASE("a run of one host has no port but Gloo's where it is asked for") {
  const TemporaryFolder folder;
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
  CHECK(program.wait(kLimit) == 0);
}

TEST_CASE("a thousand strangers at the port of a run's store neither stop it nor take memory") {
  const TemporaryFolder folder;
  const int port = levin_test::free_port();
  const auto control_group = GENERATE("auto", "gloo");
  std::vector<std::unique_ptr<ChildProgram>> ranks;
  const auto start = [&](int rank) {
    ranks.push_back(std::make_unique<ChildProgram>(std::vector<std::string>{kProgram, "stay", "0", control_group},
                                                   ChildProgram::Environment{{"RANK", std::to_string(rank)},
                                                                             {"WORLD_SIZE", "2"},
                                                                             {"LOCAL_RANK", std::to_string(rank)},
                                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                                             {"MASTER_PORT", std::to_string(port)},
                                                                             {"LEVIN_RUN_TOKEN", "a token of this run"},
                                                                             {"OMP_NUM_THREADS", "1"},
                                                                             {"LEVIN_TEST_END", (folder / "end").string()}}));
  };
  start(0);
  // The first come before the other rank does, and stay.
  const auto deadline = std::chrono::steady_clock::now() + levin::test::patience(kLimit);
  while (!listening_ports(ranks[0]->process()).contains(port) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Strangers early(port, 300);
  start(1);
  for (const auto& rank : ranks) REQUIRE(rank->wait_for_output("is at work"));
  const long before = resident_megabytes(ranks[0]->process());
  const Strangers late(port, 1000);
  CHECK(ranks[0]->wait_for_output("(1000 so far)"));
  CHECK(resident_megabytes(ranks[0]->process()) - before < 32);
  std::ofstream(folder / "end") << "now";
  for (const auto& rank : ranks) {
    INFO(rank->output());
    CHECK(rank->wait(kLimit) == 0);
  }
  CHECK(ranks[0]->count("to the run's store was dropped: it does not speak levin's language") >= 1);
  CHECK(ranks[0]->count("levin: a connection from 127.0.0.1:") == 4);
}

TEST_CASE("garbage in the store of torchrun's agent is told, and left out") {
  const TemporaryFolder folder;
  const int port = levin_test::free_port();
  ChildProgram agent({kProgram, "agent", std::to_string(port), "garbage"});
  REQUIRE(agent.wait_for_output("serves"));
  std::vector<std::unique_ptr<ChildProgram>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<ChildProgram>(std::vector<std::string>{kProgram, "stay", "0", "gloo"},
                                                   ChildProgram::Environment{{"RANK", std::to_string(rank)},
                                                                             {"WORLD_SIZE", "2"},
                                                                             {"LOCAL_RANK", std::to_string(rank)},
                                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                                             {"MASTER_PORT", std::to_string(port)},
                                                                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                                             {"OMP_NUM_THREADS", "1"},
                                                                             {"LEVIN_TEST_END", (folder / "end").string()}}));
  }
  for (const auto& rank : ranks)
    CHECK(rank->wait_for_output("levin: what the run's store holds under 'failure' cannot be read"));
  std::ofstream(folder / "end") << "now";
  for (const auto& rank : ranks) {
    INFO(rank->output());
    CHECK(rank->wait(kLimit) == 0);
    CHECK(rank->count("cannot be read") == 1);
  }
}
