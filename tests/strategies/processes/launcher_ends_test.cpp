// How the launcher's run ends when a rank fails, dies or stands still.
#include <catch2/catch.hpp>

#include "strategies/support/launched.h"

using levin_test::all_gone;
using levin_test::Launched;

TEST_CASE("a rank that leaves the run with status 0 is a failure too") {
  Launched program("exit_0", 2);
  CHECK(program.wait(std::chrono::seconds(20)) == 1);
  CHECK(program.count(
            "levin: rank 1 failed in training_step (train, epoch 2, step 31): its process ended with exit status 0 in the "
            "middle of the run") == 1);
}

TEST_CASE("what the failing rank reported is what the launcher and the waiting ranks say") {
  Launched program("throw", 2);
  CHECK(program.wait(std::chrono::seconds(20)) == 1);
  const std::string record = "rank 1 failed in training_step (train, epoch 2, step 31): loss is not finite";
  CHECK(program.count("levin: " + record) == 1);
  CHECK(program.count("rank 0 throws: " + record) == 1);
}

TEST_CASE("a rank killed in the middle of an exchange ends the run with 128 + signal") {
  Launched program("kill", 4);
  CHECK(program.wait(std::chrono::seconds(20)) == 128 + SIGKILL);
  CHECK(program.count("levin: rank 1 failed in training_step (train, epoch 2, step 31): its process was killed by signal 9") ==
        1);
}

TEST_CASE("ranks in an endless loop are ended by their watch when another rank aborts") {
  Launched program("abort_while_others_loop", 2);
  CHECK(program.wait(std::chrono::seconds(20)) == 128 + SIGABRT);
  CHECK(program.count("levin:   rank 0 ended in training_step (train, epoch 2, step 30), because rank 1 failed in ") == 1);
  CHECK(program.count("rank 0 ") == 1);  // the launcher does not say it again
}

TEST_CASE("ranks that cannot act are killed by the launcher") {
  Launched program("abort_while_others_are_stopped", 2);
  CHECK(program.wait(std::chrono::seconds(20)) == 128 + SIGABRT);
  CHECK(program.count("levin:   rank 0 did not end within 3 s and was killed") == 1);
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

TEST_CASE("ranks in different calls all end with both calls in the error") {
  Launched program("two_calls", 2);
  CHECK(program.wait(std::chrono::seconds(20)) == 1);
  for (const char* rank : {"rank 0 throws: ", "rank 1 throws: "}) {
    CHECK(program.count(std::string(rank) + "ranks met in different calls:\n  rank 0: barrier at a.cpp:1\n  rank 1: "
                                            "all_gather at b.cpp:2") == 1);
  }
}

TEST_CASE("a killed rank ends the others while the launcher is stopped, and the launcher tells how it ended") {
  Launched program("loop_for_ever", 3);
  REQUIRE(program.wait_for_output(" is process ", 3));
  program.send(SIGSTOP);
  const int killed = program.numbers_after("rank 1 is process ").at(0);
  // A rank that is stopped too can be ended by nobody else.
  const int stopped = program.numbers_after("rank 2 is process ").at(0);
  kill(stopped, SIGSTOP);
  kill(killed, SIGKILL);
  CHECK(all_gone({program.numbers_after("rank 0 is process ").at(0), stopped}, std::chrono::seconds(10)));
  CHECK(program.count("levin: rank 1 failed in training_step (train, epoch 2, step 31): its process ended") == 1);
  program.send(SIGCONT);
  CHECK(program.wait() == 128 + SIGKILL);
}
