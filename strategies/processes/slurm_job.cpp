#include "levin/strategies/processes/slurm_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

namespace {

constexpr auto kPatience = std::chrono::seconds(30);

/// What a program prints until it ends, or for as long as it may take.
std::string read_until_end(int pipe, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  std::array<char, 512> bytes{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd entry{pipe, POLLIN, 0};
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) <= 0) return text;
    const ssize_t count = read(pipe, bytes.data(), bytes.size());
    if (count <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::optional<SlurmJob> slurm_job(const EnvironmentLookup& lookup) {
  const std::string name = lookup("SLURM_JOB_NAME").value_or("");
  const auto number = lookup("SLURM_JOB_ID");
  if (!number || name == "bash" || name == "interactive") return std::nullopt;
  SlurmJob job{*number};
  const auto array = lookup("SLURM_ARRAY_JOB_ID");
  const auto task = lookup("SLURM_ARRAY_TASK_ID");
  if (array && task) job.number = *array + "_" + *task;
  const std::string restarts = lookup("SLURM_RESTART_COUNT").value_or("0");
  std::from_chars(restarts.data(), restarts.data() + restarts.size(), job.restarts);
  return job;
}

void requeue_slurm_job(const std::string& number) {
  const auto fail = [&](const std::string& why) {
    throw IoError(format("job {} could not be put back into Slurm's queue: scontrol requeue {}", number, why));
  };
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_adddup2(&actions, ends[1], output);
  std::array<std::string, 3> words = {"scontrol", "requeue", number};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t process = 0;
  const int error = posix_spawnp(&process, "scontrol", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said;
  int status = -1;
  if (error == 0) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    said = read_until_end(ends[0], deadline);
    if (std::chrono::steady_clock::now() >= deadline) kill(process, SIGKILL);
    waitpid(process, &status, 0);
  }
  close(ends[0]);
  if (error != 0) fail(std::strerror(error));
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (status != 0) fail(said.empty() ? "failed" : "says: " + said);
}

}  // namespace levin
