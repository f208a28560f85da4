#include "levin/strategies/launch/launcher.h"

#include <catch2/catch.hpp>

#include "levin/core/base/process.h"
#include "strategies/support/launched.h"

using levin_test::all_gone;
using levin_test::ChildProgram;
using levin_test::clean;
using levin_test::Launched;
using levin_test::with_fork_server;

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
  CHECK(program.count("not started: ") >= 4);  // for want of memory's file, of sockets and of what its ranks' plan reads
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
