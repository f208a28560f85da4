#include <catch2/catch.hpp>
#include <memory>

#include "strategies/support/distributed_run.h"

using levin_test::ChildProgram;
using levin_test::Distributed;
using levin_test::kLimit;
using levin_test::train;

TEST_CASE("ranks end with equal weights, which are those of one process with the global batch") {
  const double one = train("train", 1);
  CHECK(train("train", 2) == Approx(one).epsilon(1e-5));
  CHECK(train("train", 4) == Approx(one).epsilon(1e-5));
  CHECK(train("train_views", 2) == Approx(one).epsilon(1e-5));
  const double large = train("train_large", 1);
  for (const int ranks : {2, 4}) CHECK(train("train_large", ranks) == Approx(large).epsilon(1e-5));
  CHECK(train("train_large_views", 2) == Approx(large).epsilon(1e-5));
}

TEST_CASE("accumulated gradients are reduced once, and give the weights of one process") {
  CHECK(train("accumulate", 2) == Approx(train("accumulate", 1)).epsilon(1e-5));
}

TEST_CASE("a step on several ranks takes no memory for the names of parameters and buffers") {
  Distributed program("allocations_of_a_step", 2);
  REQUIRE(program.wait(kLimit) == 0);
  const auto found = program.values("allocations");
  REQUIRE(found.size() == 2);
  for (const std::string& text : found) {
    int in_buffers = -1;
    int at_end = -1;
    std::istringstream(text) >> in_buffers >> at_end;
    INFO("of 200 parameters: " << text);
    CHECK(in_buffers <= 5);
    CHECK(at_end <= 5);
  }
}

TEST_CASE("buffers are rank 0's on all ranks") {
  train("norm", 2);
  train("norm", 4);
}

TEST_CASE("unused parameters are fine when that is asked for, and a clear error otherwise") {
  CHECK(train("unused", 2) == Approx(train("unused", 1)).epsilon(1e-5));
  Distributed program("unused_by_mistake", 2);
  CHECK(program.wait(kLimit) == 1);
  CHECK(program.count("gave no gradient to spare.weight, spare.bias, so its reduction could not end") >= 1);
  CHECK(program.count("find_unused_parameters: true") >= 1);
}

TEST_CASE("a rank without a batch takes part with gradients of zero") {
  train("uneven", 2);
  train("uneven_unused", 2);
}

TEST_CASE("different modules are found before anything is exchanged, on every rank, by name") {
  Distributed program("different_shapes", 2);
  CHECK(program.wait(kLimit) == 1);
  for (const char* rank : {"rank 0 throws: ", "rank 1 throws: "}) {
    CHECK(program.count(
              std::string(rank) +
              "the module differs between ranks; all must build the same one. Rank 0 has `parameter first.weight [5, 4] "
              "Float`, rank 1 has `parameter first.weight [6, 4] Float` (line 1)") == 1);
  }
}

TEST_CASE("users' collectives give the values of all ranks, small and large") {
  for (const int ranks : {1, 2, 3}) {
    Distributed program("collectives", ranks);
    CHECK(program.wait(kLimit) == 0);
    CHECK(program.count("good ") == 21 * ranks);
    CHECK(program.count("WRONG") == 0);
  }
}

TEST_CASE("users' collectives give the same values for any size and type") {
  const std::string control_group = GENERATE("auto", "gloo");
  for (const int ranks : {2, 3}) {
    Distributed program("small_as_large", ranks, control_group);
    CHECK(program.wait(kLimit) == 0);
    CHECK(program.count("good ") == 58 * ranks);
    CHECK(program.count("WRONG") == 0);
  }
}

TEST_CASE("one collective with tensors on different devices is an error on every rank") {
  Distributed devices("different_devices", 2);
  CHECK(devices.wait(std::chrono::seconds(15)) == 1);
  CHECK(devices.count("\n  rank 0: Float [100000] on cpu\n  rank 1: Float [100000] on meta") >= 2);
}

TEST_CASE("a program that ends while a reduction travels lets it come to its end") {
  Distributed program("exits_in_flight", 2, "gloo");
  CHECK(program.wait(kLimit) == 0);
  CHECK(program.count("exit() waited") == 2);
}

TEST_CASE("a backward pass that ends with an error while a bucket travels leaves nothing behind that the bucket's end needs") {
  const std::string scenario = GENERATE("throws_in_flight", "throws_in_flight_in_16_bits");
  Distributed program(scenario, 2, "gloo");
  CHECK(program.wait(kLimit) == 0);
  CHECK(program.count("has votes") == 2);
  CHECK(program.count("WRONG") == 0);
}

TEST_CASE("the control group over Gloo gives the same training and collectives") {
  CHECK(train("train", 2, "gloo") == Approx(train("train", 2)).epsilon(1e-9));
  Distributed program("collectives", 3, "gloo");
  CHECK(program.wait(kLimit) == 0);
  CHECK(program.count("good ") == 63);
}

TEST_CASE("gather and broadcast of the control group over Gloo give what they promise, with parts of any length") {
  for (const int ranks : {2, 3}) {
    Distributed program("group_calls", ranks, "gloo");
    CHECK(program.wait(kLimit) == 0);
    CHECK(program.count("good calls") == ranks);
  }
}

TEST_CASE("ranks in different operations of the control group all end with an error that names each") {
  for (const char* control_group : {"shared_memory", "gloo"}) {
    for (const char* scenario : {"other_operation", "other_root", "other_what", "too_long"}) {
      Distributed program(scenario, 3, control_group);
      CHECK(program.wait(std::chrono::seconds(15)) == 1);
      for (const char* rank : {"rank 0 has", "rank 1 has", "rank 2 has"})
        CHECK(program.count(std::string(rank) + " the error") == 1);
      CHECK(program.count("LACKS") == 0);
    }
  }
}

TEST_CASE("a rank that dies while others gather is the one that is named") {
  for (const char* control_group : {"shared_memory", "gloo"}) {
    Distributed dying("dies_before_a_call", 3, control_group);
    CHECK(dying.wait(std::chrono::seconds(15)) == 128 + SIGABRT);
    CHECK(dying.count("levin: rank 1 failed in training_step (train, epoch 0, step 4): its process was killed by signal 6") ==
          1);
  }
}

TEST_CASE("devices that do not fit the ranks that were started are an error") {
  ChildProgram program(
      {LEVIN_BINARY_DIR "/bin/strategies_distributed_program", "collectives", "3", "auto"},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4000"}});
  CHECK(program.wait(kLimit) == 2);
  CHECK(program.count("ask for 3 ranks, but this process is rank 0 of 2 (started by torchrun)") == 1);
}

TEST_CASE("a run on the CPU does not load CUDA") {
  Distributed program("loaded", 2);
  CHECK(program.wait(kLimit) == 0);
  CHECK(program.count("no cuda") == 2);
}

TEST_CASE("a seed that comes before CUDA is loaded does not keep LibTorch from finding it") {
  if (!std::filesystem::exists(LEVIN_CUDA_LIBRARY)) return;  // levin is built without CUDA
  Distributed program("seeded_before_cuda", 1);
  CHECK(program.wait(kLimit) == 0);
  // Compiled with a toolkit's headers, where LibTorch's part for CPUs alone was downloaded.
  if (program.count("cannot open shared object file") == 1) {
    WARN("not tested: CUDA's libraries are not here");
    return;
  }
  CHECK(program.count("knows cuda") == 1);
}
