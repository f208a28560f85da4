// Seconds of what is done with a checkpoint of 1 GB, in 64 tensors: written to the disk with fsync; handed to the thread that
// writes it, which is what a step waits for; and one copy of as many bytes within memory. One sample a run.
//
//     checkpoint_file save|hand_over|memcpy
#include <levin/levin.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "sample.h"

namespace {

constexpr std::int64_t kTensors = 64;
constexpr std::int64_t kNumbers = (std::int64_t{1} << 30) / kTensors / 4;
const std::filesystem::path kFile = "checkpoint_file.ckpt";

levin::Checkpoint make_checkpoint() {
  levin::Checkpoint checkpoint;
  for (std::int64_t index = 0; index < kTensors; ++index) {
    checkpoint.tensors["state_dict.layer_" + std::to_string(index)] = torch::rand({kNumbers});
  }
  return checkpoint;
}

/// Into memory that has been written to before: that of a copy is not new in a run, but for the first.
double seconds_of_memcpy(const levin::Checkpoint& checkpoint) {
  constexpr std::size_t kBytes = std::size_t{4} * kNumbers;
  const auto target = std::make_unique<char[]>(kBytes * kTensors);
  const auto copy = [&] {
    std::size_t offset = 0;
    for (const auto& [name, tensor] : checkpoint.tensors) {
      std::memcpy(target.get() + offset, tensor.const_data_ptr(), kBytes);
      offset += kBytes;
    }
    asm volatile("" : : "r"(target.get()) : "memory");  // else clang leaves out copies that are never read
  };
  copy();
  const levin::benchmarks::Stopwatch stopwatch;
  copy();
  return stopwatch.seconds();
}

/// Of a file that is not the first one of a run.
double seconds_of_hand_over(const levin::Checkpoint& checkpoint) {
  levin::BackgroundFiles files;
  files.write(checkpoint, kFile);
  bool is_written = false;
  files.when_done([&] { is_written = true; });
  while (!is_written) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    files.check();
  }
  const levin::benchmarks::Stopwatch stopwatch;
  files.write(checkpoint, kFile);
  const double seconds = stopwatch.seconds();
  files.wait();
  return seconds;
}

double seconds_of_save(const levin::Checkpoint& checkpoint) {
  const levin::benchmarks::Stopwatch stopwatch;
  checkpoint.save(kFile);
  return stopwatch.seconds();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc > 1 ? argv[1] : "";
  at::set_num_threads(1);
  const levin::Checkpoint checkpoint = make_checkpoint();
  if (side == "save") {
    levin::benchmarks::print_sample(seconds_of_save(checkpoint));
  } else if (side == "hand_over") {
    levin::benchmarks::print_sample(seconds_of_hand_over(checkpoint));
  } else if (side == "memcpy") {
    levin::benchmarks::print_sample(seconds_of_memcpy(checkpoint));
  } else {
    std::fprintf(stderr, "usage: checkpoint_file save|hand_over|memcpy\n");
    return 2;
  }
  std::filesystem::remove(kFile);
}
