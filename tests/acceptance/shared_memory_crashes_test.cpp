// Runs whose ranks share memory, killed at any instant: nothing of it stays.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "acceptance/saving_fit.h"
#include "strategies/support/odd_listener.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// What lies in /dev/shm, but for folders of tests.
std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("levin_test_")) names.insert(name);
  }
  return names;
}

/// Processes of a process group that have not ended.
std::vector<pid_t> members_of(pid_t group) {
  std::vector<pid_t> members;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t end = stat.rfind(')');  // the name before it may hold anything
    if (end == std::string::npos) continue;
    std::istringstream fields(stat.substr(end + 1));
    char state = 0;
    pid_t parent = 0;
    pid_t process_group = 0;
    fields >> state >> parent >> process_group;
    if (process_group == group && state != 'Z') members.push_back(std::stoi(name));
  }
  return members;
}

/// Waits until nothing of the group runs; false when something stays.
bool ends_within(pid_t group, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!members_of(group).empty()) {
    if (std::chrono::steady_clock::now() > end) return false;
    usleep(1000);
  }
  return true;
}

Command endless_fit(const fs::path& folder, Environment environment = {}) {
  environment.emplace_back("OMP_NUM_THREADS", "1");
  // Of a rank 0 that nobody launched, and that was killed before it could be found, nobody knows more than that it does not
  // come.
  return {.arguments = saving_fit(folder, "every_n_train_steps: 5, filename: last",
                                  {"--trainer.devices=2", "--trainer.max_epochs=-1", "--trainer.connect_timeout_seconds=20"}),
          .environment = environment,
          .copied = true};
}

TEST_CASE("a run that is killed at any instant, in whole or in part, leaves no process and no shared memory") {
  const std::set<std::string> before = shared_memory();
  std::mt19937_64 random(5);
  const int crashes = is_whole_matrix() ? 200 : 9;
  for (int round = 0; round < crashes; ++round) {
    const TemporaryFolder folder;
    Started run(endless_fit(folder.path()));
    // Now and then it is killed before its ranks have met.
    const bool trains = round % 4 != 3;
    while (trains && !fs::exists(folder / "kept" / "last.ckpt")) usleep(1000);
    usleep(static_cast<useconds_t>(random() % 100'000));  // The instant is what varies; nothing is waited for.
    const std::vector<pid_t> members = members_of(run.process());
    switch (round % 3) {
      case 0:
        kill(-run.process(), SIGKILL);
        break;
      case 1:
        if (!members.empty()) kill(members[random() % members.size()], SIGKILL);
        break;
      default:
        kill(run.process(), SIGKILL);  // who launched the ranks
    }
    INFO("crash " << round << " of " << members.size() << " processes");
    CHECK(run.wait() != 0);
    CHECK(ends_within(run.process(), std::chrono::seconds(60)));
    kill(-run.process(), SIGKILL);
  }
  CHECK(shared_memory() == before);
}

TEST_CASE("ranks that nobody launched together leave no shared memory either, killed while they meet") {
  const std::set<std::string> before = shared_memory();
  std::mt19937_64 random(6);
  const int crashes = is_whole_matrix() ? 100 : 5;
  for (int round = 0; round < crashes; ++round) {
    const TemporaryFolder folder;
    const std::string port = std::to_string(levin_test::free_port());
    const auto of_rank = [&](const std::string& rank) {
      return endless_fit(folder.path(), {{"RANK", rank},
                                         {"LOCAL_RANK", rank},
                                         {"WORLD_SIZE", "2"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", port}});
    };
    Started zero(of_rank("0"));
    Started one(of_rank("1"));
    usleep(static_cast<useconds_t>(random() % 400'000));  // The instant is what varies; nothing is waited for.
    kill(zero.process(), SIGKILL);
    if (round % 2 == 0) kill(one.process(), SIGKILL);
    INFO("crash " << round);
    CHECK(zero.wait() == 128 + SIGKILL);
    // Who is left ends by itself, once it has learned of it.
    if (round % 2 != 0) CHECK(ends_within(one.process(), std::chrono::seconds(60)));
  }
  CHECK(shared_memory() == before);
}

}  // namespace
}  // namespace levin::test
