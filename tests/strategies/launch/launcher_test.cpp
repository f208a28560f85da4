#include "levin/strategies/launch/launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/strategies/failure/children.h"
#include "strategies/support/child_program.h"

using levin_test::all_gone;
using levin_test::ChildProgram;

namespace {

/// Each test runs with ranks that execute the program, and with those of a fork server.
bool with_fork_server() { return GENERATE(false, true); }

ChildProgram::Environment clean() {
  ChildProgram::Environment environment = {
      {"RANK", ""}, {"WORLD_SIZE", ""}, {"LOCAL_RANK", ""}, {"SLURM_NTASKS", ""}, {"OMPI_COMM_WORLD_SIZE", ""}};
  if (with_fork_server()) environment.emplace_back("WITH_FORK_SERVER", "1");
  return environment;
}

/// A scenario of strategies_launched_program, under levin's launcher.
struct Launched : ChildProgram {
  Launched(const std::string& scenario, int ranks, ChildProgram::Environment environment = clean())
      : ChildProgram({LEVIN_BINARY_DIR "/bin/strategies_launched_program", scenario, std::to_string(ranks), "an argument"},
                     environment) {}
};

pid_t waiting_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  while (true) pause();
}

}  // namespace

TEST_CASE("the launcher starts so many ranks, which find one another, and ends with status 0") {
  for (const int ranks : {1, 2, 4}) {
    auto environment = clean();
    environment.emplace_back("OMP_NUM_THREADS", "7");
    Launched program("sum", ranks, environment);
    REQUIRE(program.wait() == 0);
    const std::string sum = std::to_string(ranks * (ranks + 1) / 2);
    CHECK(program.count(" of " + std::to_string(ranks) + ": sum " + sum + ", threads 7") == ranks);
    CHECK(program.count(", reaches the store by a socket") == ranks);
    CHECK(program.count(", loaded by its launcher") == (with_fork_server() ? ranks : 0));
  }
}

TEST_CASE("ranks are started anew where the fork server is gone") {
  Launched killed("sum", 2, {{"WITH_FORK_SERVER", "killed"}});
  REQUIRE(killed.wait() == 0);
  CHECK(killed.count(" of 2: sum 3, ") == 2);
  CHECK(killed.count(", loaded by itself") == 2);
}

TEST_CASE("a launcher that cannot start its ranks has no process, no open file and no blocked signal more than before") {
  Launched program("cannot_start", 2, {});
  CHECK(program.wait() == 0);
  CHECK(program.count("not started: ") >= 4);  // without a file for memory, sockets, and a file for its ranks' plan
  CHECK(program.count("reading /proc/self/cmdline") >= 1);
  CHECK(program.count("LEFT") == 0);
}

TEST_CASE("ranks share the cores unless the user says otherwise") {
  Launched program("sum", 8);
  REQUIRE(program.wait() == 0);
  const auto threads = program.numbers_after("threads ");
  REQUIRE(threads.size() == 8);
  for (const int number : threads) CHECK(number == std::max(1, levin::usable_cores() / 8));
}

TEST_CASE(
    "a rank that ends with an error ends the run with its status; the error comes first, then a line for each other rank") {
  Launched program("exit_3", 3);
  CHECK(program.wait(std::chrono::seconds(20)) == 3);
  const std::string output = program.output();
  INFO(output);
  CHECK(program.count(
            "levin: rank 1 failed in training_step (train, epoch 2, step 31): its process ended with exit status 3") == 1);
  const std::size_t error = output.find("levin: rank 1 failed");
  for (const char* other : {"levin:   rank 0 ended with exit status 1", "levin:   rank 2 ended with exit status 1"}) {
    REQUIRE(output.find(other) != std::string::npos);
    CHECK(error < output.find(other));
  }
  CHECK(program.count("levin:   rank 1") == 0);
}

TEST_CASE("signals to the launcher reach each rank once") {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    Launched program("wait_for_signal", 2);
    REQUIRE(program.wait_for_output("process ", 2));
    program.send(signal);
    CHECK(program.wait() == 128 + signal);
    CHECK(program.count("signal " + std::to_string(signal) + "\n") == 2);
    CHECK(program.count("failed") == 0);
  }
}

TEST_CASE("what ranks have started ends with them when one fails") {
  Launched program("abort_with_a_child", 2);
  CHECK(program.wait() == 128 + SIGABRT);
  const auto processes = program.numbers_after("child ");
  REQUIRE(processes.size() == 2);
  CHECK(all_gone(processes, std::chrono::seconds(5)));
}

TEST_CASE("no rank outlives a launcher that is killed") {
  Launched program("wait_for_signal", 2);
  REQUIRE(program.wait_for_output("process ", 2));
  const auto processes = program.numbers_after("process ");
  REQUIRE(processes.size() == 2);
  program.send(SIGKILL);
  CHECK(program.wait() == 128 + SIGKILL);
  CHECK(all_gone(processes, std::chrono::seconds(5)));
}

TEST_CASE("closed standard descriptors are never taken for the memory that ranks share") {
  for (int closed = 0; closed < 8; ++closed) {
    std::string shell = "exec \"$@\"";
    for (const int descriptor : {0, 1, 2}) {
      if ((closed >> descriptor & 1) != 0) shell += " " + std::to_string(descriptor) + ">&-";
    }
    INFO(shell);
    // A message of a failing rank, written to descriptor 2, would be written over the shared memory.
    ChildProgram failing({"/bin/sh", "-c", shell, "sh", LEVIN_BINARY_DIR "/bin/strategies_launched_program", "throw", "2"},
                         clean());
    CHECK(failing.wait(std::chrono::seconds(20)) == 1);
    CHECK(failing.count("loss is not finite") == ((closed & 4) != 0 ? 0 : 2));
    ChildProgram good({"/bin/sh", "-c", shell, "sh", LEVIN_BINARY_DIR "/bin/strategies_launched_program", "descriptors", "2"},
                      clean());
    CHECK(good.wait(std::chrono::seconds(20)) == 0);
  }
}

// How the run ends when a rank fails, dies or stops.

TEST_CASE("the run ends with the status of the rank that failed, and says which one it was, where, and what the others did") {
  using Lines = std::vector<std::string>;
  const std::string rank_1 = "rank 1 failed in training_step (train, epoch 2, step 31): ";
  const std::string calls = "ranks met in different calls:\n  rank 0: barrier at a.cpp:1\n  rank 1: all_gather at b.cpp:2";
  const auto [scenario, ranks, status, lines] = GENERATE_COPY(table<std::string, int, int, Lines>({
      {"exit_0", 2, 1, {"levin: " + rank_1 + "its process ended with exit status 0 in the middle of the run"}},
      {"throw", 2, 1, {"levin: " + rank_1 + "loss is not finite", "rank 0 throws: " + rank_1 + "loss is not finite"}},
      {"kill", 4, 128 + SIGKILL, {"levin: " + rank_1 + "its process was killed by signal 9"}},
      // Ranks in an endless loop are ended by their watch, and the launcher does not say it again.
      {"abort_while_others_loop",
       2,
       128 + SIGABRT,
       {"levin:   rank 0 ended in training_step (train, epoch 2, step 30), because rank 1 failed in ", "rank 0 "}},
      // A rank that saves its state after another's failure gets the time for it.
      {"abort_while_another_saves", 2, 128 + SIGABRT, {"rank 0 has saved"}},
      // Ranks that cannot act are killed by the launcher.
      {"abort_while_others_are_stopped", 2, 128 + SIGABRT, {"levin:   rank 0 did not end within 3 s and was killed"}},
      {"two_calls", 2, 1, {"rank 0 throws: " + calls, "rank 1 throws: " + calls}},
  }));
  Launched program(scenario, ranks);
  CHECK(program.wait(std::chrono::seconds(20)) == status);
  for (const std::string& line : lines) CHECK(program.count(line) == 1);
}

TEST_CASE("a stopped rank gives one table of where the ranks are, and then the end of the run") {
  Launched program("stop", 3);
  CHECK(program.wait(std::chrono::seconds(30)) != 0);
  const std::string output = program.output();
  INFO(output);
  const std::size_t report = output.find("has waited 1 s in the step boundary. Ranks are:");
  REQUIRE(report != std::string::npos);
  CHECK(output.find("stopped", report) != std::string::npos);
  CHECK(output.find("training_step (train, epoch 2, step 31)", report) != std::string::npos);
  CHECK(program.count("has waited 1 s in the step boundary") == 1);
  CHECK(program.count("(timeout_seconds). Ranks are:") >= 1);
}

TEST_CASE("a killed rank ends the others while the launcher is stopped, and the launcher tells how it ended") {
  Launched program("loop_for_ever", 3);
  REQUIRE(program.wait_for_output(" is process ", 3));
  program.send(SIGSTOP);
  const int killed = program.numbers_after("rank 1 is process ").at(0);
  // A stopped rank cannot end by itself: the others must end it.
  const int stopped = program.numbers_after("rank 2 is process ").at(0);
  kill(stopped, SIGSTOP);
  kill(killed, SIGKILL);
  CHECK(all_gone({program.numbers_after("rank 0 is process ").at(0), stopped}, std::chrono::seconds(10)));
  CHECK(program.count("levin: rank 1 failed in training_step (train, epoch 2, step 31): its process ended") == 1);
  program.send(SIGCONT);
  CHECK(program.wait() == 128 + SIGKILL);
}

TEST_CASE("killed processes are gone, and nobody has to wait for them any more") {
  const pid_t first = waiting_child();
  const pid_t second = waiting_child();
  REQUIRE(first > 0);
  REQUIRE(second > 0);
  levin::kill_processes({first, 0, second});
  for (const pid_t child : {first, second}) {
    CHECK(waitpid(child, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
  }
  CHECK(levin::process_state(levin::ProcessId::self()) == levin::ProcessState::kRunning);
}
