// Several hosts with several ranks each, all on this machine: the transport of gradients, and their results.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>

#include "strategies/support/distributed_run.h"
#include "strategies/support/odd_listener.h"

using levin_test::ChildProgram;
using levin_test::kLimit;

namespace {

constexpr const char* kByHost = "metrics over gloo, gradients over shared memory within hosts and gloo between";
constexpr const char* kFlat = "metrics over gloo, gradients over gloo";
/// All ranks end within 5 s of a failure; starting them on a busy machine takes some more.
constexpr auto kFailureLimit = std::chrono::seconds(30);

using Environment = ChildProgram::Environment;

/// strategies_distributed_program on hosts, each started with levin's launcher.
struct Hosts {
  Hosts(const std::string& scenario, int hosts, int ranks_per_host, const Environment& more = {},
        const std::string& control_group = "auto") {
    for (int host = 0; host < hosts; ++host) {
      start(scenario, ranks_per_host, control_group,
            {{"NODE_RANK", std::to_string(host)}, {"LEVIN_TEST_HOSTS", std::to_string(hosts)}}, more);
    }
  }
  /// Every rank as torchrun starts it: hosts by name.
  Hosts(const std::string& scenario, const std::vector<std::string>& host_of_rank,
        const std::map<int, Environment>& more = {}) {
    for (int rank = 0; rank < static_cast<int>(host_of_rank.size()); ++rank) {
      start(scenario, 0, "auto",
            {{"RANK", std::to_string(rank)},
             {"WORLD_SIZE", std::to_string(host_of_rank.size())},
             {"LOCAL_RANK", "0"},
             {"LEVIN_TEST_HOST_NAME", host_of_rank[static_cast<std::size_t>(rank)]}},
            more.contains(rank) ? more.at(rank) : Environment{});
    }
  }
  void start(const std::string& scenario, int ranks, const std::string& control_group, Environment environment,
             const Environment& more) {
    environment.insert(environment.end(), more.begin(), more.end());
    environment.insert(environment.end(),
                       {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}, {"OMP_NUM_THREADS", "1"}});
    programs.push_back(
        std::make_unique<ChildProgram>(std::vector<std::string>{LEVIN_BINARY_DIR "/bin/strategies_distributed_program",
                                                                scenario, std::to_string(ranks), control_group},
                                       environment, levin_test::How::kCopied));
  }
  std::vector<int> wait(std::chrono::seconds limit = kLimit) {
    std::vector<int> statuses;
    for (const auto& program : programs) statuses.push_back(program->wait(limit));
    return statuses;
  }
  /// False, with a warning, where this user may not name hosts.
  bool may_have_names() const {
    for (const auto& program : programs) {
      if (program->count("this user may not name a host") == 0) continue;
      WARN("not tested: this user may not name a host");
      return false;
    }
    return true;
  }
  int count(const std::string& text) const {
    int found = 0;
    for (const auto& program : programs) found += program->count(text);
    return found;
  }
  /// The texts after "name " at the beginning of lines.
  std::vector<std::string> values(const std::string& name) const {
    std::vector<std::string> found;
    for (const auto& program : programs) {
      for (const std::string& value : program->values(name)) found.push_back(value);
    }
    return found;
  }

  int port = levin_test::free_port();
  std::vector<std::unique_ptr<ChildProgram>> programs;
};

std::vector<int> good(std::size_t programs) { return std::vector<int>(programs, 0); }

/// The result of a training.
struct Trained {
  std::string bits;
  double sum = 0;
};

/// All ranks must end with the same bits.
Trained train(const std::string& scenario, int hosts, int ranks_per_host, const std::string& gradients) {
  Hosts run(scenario, hosts, ranks_per_host, {{"LEVIN_TEST_GRADIENTS", gradients}});
  REQUIRE(run.wait() == good(run.programs.size()));
  const auto bits = run.values("bits");
  REQUIRE(bits.size() == static_cast<std::size_t>(hosts * ranks_per_host));
  CHECK(std::set<std::string>(bits.begin(), bits.end()).size() == 1);
  return {bits[0], std::stod(run.values("sum")[0])};
}

void check_transports(Hosts& run, const std::string& expected, std::size_t ranks) {
  CHECK(run.wait() == good(run.programs.size()));
  CHECK(run.values("transports") == std::vector<std::string>(ranks, expected));
}

}  // namespace

TEST_CASE("hosts with several ranks each share gradients within them, unless that is switched off") {
  Hosts by_host("transports", 2, 2);
  check_transports(by_host, kByHost, 4);
  Hosts flat("transports", 2, 2, {{"LEVIN_TEST_GRADIENTS", "gloo"}});
  check_transports(flat, kFlat, 4);
  Hosts looked_at("transports", 2, 2, {}, "gloo");
  check_transports(looked_at, kFlat, 4);
  Hosts with_one_rank("transports", 2, 1);
  check_transports(with_one_rank, kFlat, 2);
}

TEST_CASE("hosts train to the same bits on all ranks and in every run, which are the weights of Gloo alone") {
  const auto [scenario, hosts] = GENERATE(table<std::string, int>({{"train", 2}, {"train_wide", 2}, {"train_wide", 3}}));
  const Trained by_host = train(scenario, hosts, 2, "auto");
  CHECK(train(scenario, hosts, 2, "auto").bits == by_host.bits);
  CHECK(train(scenario, hosts, 2, "gloo").sum == Approx(by_host.sum).epsilon(1e-6));
}

TEST_CASE("every kind of reduction and collective gives on hosts what it gives without them") {
  for (const char* scenario : {"train_views", "uneven_unused", "power_sgd"}) {
    CHECK(train(scenario, 2, 2, "auto").sum == Approx(train(scenario, 2, 2, "gloo").sum).epsilon(1e-5));
  }
  Hosts collectives("collectives", 2, 2);
  CHECK(collectives.wait() == good(2));
  CHECK(collectives.count("good ") == 21 * 4);
  CHECK(collectives.count("WRONG") == 0);
}

TEST_CASE("gradients in 16 bits carry votes between hosts") {
  for (const char* scenario : {"gradient_fp16", "gradient_bf16"}) {
    Hosts run(scenario, 2, 2);
    CHECK(run.wait() == good(2));
    CHECK(run.count("WRONG") == 0);
    const auto gradients = run.values("gradients");
    REQUIRE(gradients.size() == 4);
    CHECK(std::set<std::string>(gradients.begin(), gradients.end()).size() == 1);
    // Ranks have 1/3 to 4/3, whose mean is 5/6.
    CHECK(std::stod(gradients[0]) == Approx(5.0 / 6).epsilon(scenario == std::string("gradient_fp16") ? 0.002 : 0.02));
  }
}

TEST_CASE("a rank that is killed while others wait for its share ends all hosts, and is named") {
  Hosts run("killed_in_backward", 2, 2);
  const auto statuses = run.wait(kFailureLimit);
  CHECK(statuses[0] > 0);
  CHECK(statuses[1] == 128 + SIGKILL);
  CHECK(run.programs[1]->count(
            "levin: rank 3 failed in training_step (train, epoch 0, step 2): its process was killed by signal 9 (Killed)") ==
        1);
  CHECK(run.programs[0]->count("levin: rank 3 failed in training_step (train, epoch 0, step 2): its process ") == 1);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) {
    CHECK(run.count("levin: " + std::string(rank) + " failed") == 0);
    CHECK(run.count(std::string(rank) + " was killed ") == 0);
  }
}

TEST_CASE("ranks of several hosts that somebody else started share gradients within them") {
  Hosts run("train_wide", {"apollo", "apollo", "bacchus", "bacchus"});
  const auto statuses = run.wait();
  if (!run.may_have_names()) return;
  CHECK(statuses == good(4));
  const auto bits = run.values("bits");
  REQUIRE(bits.size() == 4);
  CHECK(bits == std::vector<std::string>(4, train("train_wide", 2, 2, "auto").bits));
  Hosts same("transports", {"apollo", "apollo", "bacchus", "bacchus"});
  check_transports(same, kByHost, 4);
  Hosts mixed("transports", {"apollo", "bacchus", "apollo", "bacchus"});
  check_transports(mixed, kFlat, 4);
  Hosts uneven("transports", {"apollo", "apollo", "bacchus"});
  check_transports(uneven, kFlat, 3);
}

TEST_CASE("a rank without a launcher that is killed while others wait for its share ends all hosts, and is named") {
  Hosts run("killed_in_backward", {"apollo", "apollo", "bacchus", "bacchus"});
  const auto statuses = run.wait(kFailureLimit);
  if (!run.may_have_names()) return;
  CHECK(statuses == std::vector<int>{1, 1, 1, 128 + SIGKILL});
  // Where it was is posted twice a second only.
  CHECK(run.count("levin: rank 3 failed ") == 1);
  for (const int rank : {0, 1, 2}) CHECK(run.count("levin: rank " + std::to_string(rank) + " failed ") == 0);
}

TEST_CASE("where one host cannot share memory, gradients of all travel over Gloo, with one warning") {
  const std::string warning = "gradients travel over gloo within hosts too, which is slower.";
  // Too little for gradients; the segment of a host is smaller.
  const Environment little = {{"LEVIN_TEST_FILE_BYTES", "2000000"}};
  Hosts launched("transports", 2, 2, little);
  check_transports(launched, kFlat, 4);
  CHECK(launched.count(warning) == 1);
  CHECK(launched.programs[0]->count("warning: rank 0: shared memory of the run: fallocate of ") == 1);

  const std::vector<std::string> names = {"apollo", "apollo", "bacchus", "bacchus"};
  for (const char* bytes : {"2000000", "20000"}) {  // or too little for that, too
    Hosts started("transports", names, {{2, {{"LEVIN_TEST_FILE_BYTES", bytes}}}});
    const auto statuses = started.wait();
    if (!started.may_have_names()) return;
    CHECK(statuses == good(4));
    CHECK(started.values("transports") == std::vector<std::string>(4, kFlat));
    CHECK(started.count(warning) == 1);
    CHECK(started.programs[0]->count("warning: rank 2: shared memory of the run: fallocate of ") == 1);
  }
}
