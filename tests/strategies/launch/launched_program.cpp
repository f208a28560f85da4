// A program with a few behaviours that starts its own ranks, without torch. Run by launcher_test.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/strategies/failure/children.h"
#include "levin/strategies/host/failure_watch.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/launch/launcher.h"
#include "levin/strategies/launch/rank_process.h"

namespace {

volatile sig_atomic_t received_signal = 0;
/// The process that loaded this program: a rank of a fork server has not.
const pid_t loading_process = getpid();

/// WITH_FORK_SERVER=1 starts one; =killed kills it at once.
void start_fork_server() {
  const char* wish = std::getenv("WITH_FORK_SERVER");
  if (wish == nullptr || levin::ForkServer::instance().start() || wish != std::string("killed")) return;
  pid_t server = 0;
  std::ifstream("/proc/thread-self/children") >> server;
  if (server > 0) kill(server, SIGKILL);
}

constexpr double kTimeoutSeconds = 2;

struct World {
  explicit World(const levin::ClusterEnvironment& environment)
      : segment(levin::RunSegment::attach(*environment.shared_memory_fd)),
        board(std::make_shared<levin::SharedMemoryStatusBoard>(segment, environment.rank)),
        group(segment, board, kTimeoutSeconds) {}
  int rank() const { return board->rank(); }
  /// What all ranks contributed, added up.
  int sum(int mine, const char* what = "sum") {
    std::vector<int> all(static_cast<std::size_t>(group.size()));
    group.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), what);
    int total = 0;
    for (const int value : all) total += value;
    return total;
  }
  void begin_run() {
    board->post_busy(true);
    board->post_whereabouts({levin::Stage::kTrain, levin::Hook::kTrainingStep, 2, 30 + rank()});
    sum(1, "begin");
  }
  std::shared_ptr<levin::RunSegment> segment;
  std::shared_ptr<levin::SharedMemoryStatusBoard> board;
  levin::SharedMemoryGroup group;
};

[[noreturn]] void loop_for_ever() {
  volatile bool never = false;
  while (!never) {
  }
  std::abort();
}

using Scenario = std::function<int(World&)>;

/// Rank 1 does this, while the others meet.
Scenario on_rank_1(Scenario does) {
  return [does = std::move(does)](World& world) {
    world.begin_run();
    return world.rank() == 1 ? does(world) : world.sum(1);
  };
}

const std::map<std::string, Scenario> kScenarios = {
    {"sum",
     [](World& world) -> int {
       struct stat descriptor {};
       fstat(std::atoi(std::getenv("LEVIN_STORE_FD")), &descriptor);
       std::printf("rank %d of %d: sum %d, threads %s, reaches the store by %s, loaded by %s\n", world.rank(),
                   world.group.size(), world.sum(world.rank() + 1), std::getenv("OMP_NUM_THREADS"),
                   S_ISSOCK(descriptor.st_mode) ? "a socket" : "nothing",
                   loading_process == getpid() ? "itself" : "its launcher");
       return 0;
     }},
    {"descriptors",
     [](World& world) -> int {
       // Rank 0's own input is empty in any case; what the user closed is /dev/null too.
       for (const int descriptor : {0, 1, 2}) {
         std::error_code error;
         const auto file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error).string();
         if (error || file.find("memfd") != std::string::npos || file.find("socket") != std::string::npos) return 1;
       }
       return world.segment->descriptor() > 2 && world.sum(1) == world.group.size() ? 0 : 1;
     }},
    {"exit_3", on_rank_1([](World&) -> int { _exit(3); })},
    {"exit_0", on_rank_1([](World&) -> int { _exit(0); })},
    {"kill", on_rank_1([](World&) { return raise(SIGKILL); })},
    {"throw", on_rank_1([](World& world) {
       world.board->report_failure({1, world.board->own_whereabouts(), "loss is not finite"});
       return 1;
     })},
    {"abort_while_others_loop",
     [](World& world) -> int {
       const levin::FailureWatch watch(world.board, {});
       world.begin_run();
       if (world.rank() == 1) std::abort();
       loop_for_ever();
     }},
    {"abort_while_another_saves",
     [](World& world) -> int {
       const levin::FailureWatch watch(world.board, {});
       world.begin_run();
       if (world.rank() == 1) std::abort();
       world.board->post_saving(true);
       // Longer than a rank that does not save would get, of its own watch or of the launcher.
       std::this_thread::sleep_for(std::chrono::milliseconds(4500));
       std::printf("rank %d has saved\n", world.rank());
       std::fflush(stdout);
       world.board->post_explained();
       world.board->post_saving(false);
       return 1;
     }},
    {"loop_for_ever",
     [](World& world) -> int {
       const levin::FailureWatch watch(world.board, {});
       world.begin_run();
       std::printf("rank %d is process %d\n", world.rank(), static_cast<int>(getpid()));
       std::fflush(stdout);
       loop_for_ever();
     }},
    {"abort_while_others_are_stopped",
     [](World& world) -> int {
       world.begin_run();
       if (world.rank() == 0) raise(SIGSTOP);
       if (world.rank() == 1) std::abort();
       return 0;
     }},
    {"abort_with_a_child",
     [](World& world) -> int {
       const pid_t child = fork();
       if (child == 0) loop_for_ever();
       std::printf("child %d\n", static_cast<int>(child));
       std::fflush(stdout);
       world.begin_run();
       if (world.rank() == 1) std::abort();
       return world.sum(1);
     }},
    {"stop",
     [](World& world) -> int {
       levin::FailureWatch::Settings settings;
       settings.timeouts.stall_report_seconds = 1;
       const levin::FailureWatch watch(world.board, settings);
       world.begin_run();
       if (world.rank() == 1) raise(SIGSTOP);
       return world.sum(1, "the step boundary");
     }},
    {"wait_for_signal",
     [](World& world) -> int {
       for (const int number : {SIGTERM, SIGINT, SIGUSR1}) signal(number, [](int received) { received_signal = received; });
       world.sum(1);
       std::printf("process %d\n", static_cast<int>(getpid()));
       std::fflush(stdout);
       while (received_signal == 0) usleep(1000);
       std::printf("signal %d\n", static_cast<int>(received_signal));
       return 128 + static_cast<int>(received_signal);
     }},
    {"two_calls",
     [](World& world) -> int {
       world.begin_run();
       return world.sum(1, world.rank() == 0 ? "barrier at a.cpp:1" : "all_gather at b.cpp:2");
     }},
};

/// The resources of a launcher: its open files, its children and the signals that it blocks.
std::string holdings() {
  std::string text;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) text += file.path().filename().string() + " ";
  std::ifstream children("/proc/thread-self/children");
  for (std::string child; children >> child;) text += "child " + child;
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal < NSIG; ++signal) text += sigismember(&blocked, signal) == 1 ? "1" : "0";
  return text;
}

/// Tries to start ranks with one more file that may be opened each time, until it can.
// UBSan looks at the type of an object through a pipe, which cannot be had here.
#if defined(__clang__)
__attribute__((no_sanitize("vptr")))
#endif
int cannot_start() {
  const std::string before = holdings();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit enough = limit;
  for (limit.rlim_cur = 3;; ++limit.rlim_cur) {
    setrlimit(RLIMIT_NOFILE, &limit);
    try {
      const std::vector<levin::RankSpec> specs = {{.local_ranks = 2}, {.local_rank = 1, .local_ranks = 2}};
      levin::kill_processes(levin::start_ranks(specs).processes);
      return 0;
    } catch (const levin::IoError& error) {
      std::fprintf(stderr, "not started: %s\n", error.what());
    }
    setrlimit(RLIMIT_NOFILE, &enough);
    if (holdings() != before) std::fprintf(stderr, "LEFT %s of %s\n", holdings().c_str(), before.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  start_fork_server();
  const levin::OwnProcess own;
  if (argv[1] == std::string("cannot_start") && std::getenv("RANK") == nullptr) return cannot_start();
  const auto environment = levin::detect_cluster_environment();
  if (environment.kind == levin::ClusterKind::kNone) levin::launch_ranks({.local_ranks = std::atoi(argv[2])});
  World world(environment);
  try {
    const int status = kScenarios.at(argv[1])(world);
    world.board->post_busy(false);
    return status;
  } catch (const levin::Error& error) {
    std::fprintf(stderr, "rank %d throws: %s\n", world.rank(), error.what());
    world.board->post_busy(false);
    return 1;
  }
}
