#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <random>

#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

namespace {

// Saves generation after generation over the same file, until it is killed.
[[noreturn]] void save_for_ever(const std::filesystem::path& file, std::int64_t first, int started) {
  for (std::int64_t generation = first;; ++generation) {
    levin::Checkpoint checkpoint;
    checkpoint.manifest["generation"] = generation;
    checkpoint.tensors["weight"] = at::full({50000}, static_cast<double>(generation), at::kDouble);
    checkpoint.save(file);
    if (generation == first && write(started, "s", 1) != 1) _exit(1);
  }
}

}  // namespace

TEST_CASE("a process killed at any instant of saving leaves a whole checkpoint") {
  at::set_num_threads(1);
  levin::test::TemporaryFolder folder;
  const auto file = folder / "last.ckpt";
  std::mt19937_64 random(7);
  std::int64_t generation = 0;
  for (int round = 0; round < 40; ++round) {
    int started[2];
    REQUIRE(pipe(started) == 0);
    const pid_t child = fork();
    if (child == 0) save_for_ever(file, generation + 1, started[1]);
    char signal_byte;
    close(started[1]);
    REQUIRE(read(started[0], &signal_byte, 1) == 1);
    close(started[0]);
    usleep(static_cast<useconds_t>(random() % 20000));  // The instant is what varies; nothing is waited for.
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);

    const levin::Checkpoint loaded = levin::Checkpoint::load(file);
    const std::int64_t found = loaded.manifest.at("generation").as_int();
    REQUIRE(found > generation);
    REQUIRE(at::equal(loaded.tensors.at("weight"), at::full({50000}, static_cast<double>(found), at::kDouble)));
    generation = found;
  }
}
