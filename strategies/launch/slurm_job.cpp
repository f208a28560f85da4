#include "levin/strategies/launch/slurm_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenScontrolLooks = std::chrono::milliseconds(10);

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

/// What a program prints until it closes its output, or until the deadline.
std::string read_until_end(int pipe, Clock::time_point deadline) {
  std::string text;
  std::array<char, 512> bytes{};
  while (Clock::now() < deadline) {
    pollfd entry{pipe, POLLIN, 0};
    // A signal, of which there are some while a job ends, interrupts poll() whatever its handler is.
    if (poll(&entry, 1, milliseconds_until(deadline)) <= 0) continue;
    const ssize_t count = read(pipe, bytes.data(), bytes.size());
    if (count == 0) break;
    if (count > 0) text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// How a child has ended; nothing when it has not by the deadline, and was killed with all that it has started.
std::optional<int> status_at_end(pid_t process, Clock::time_point deadline) {
  int status = 0;
  while (waitpid(process, &status, WNOHANG) != process) {
    if (Clock::now() < deadline) {
      poll(nullptr, 0, static_cast<int>(kBetweenScontrolLooks.count()));
      continue;
    }
    kill(-process, SIGKILL);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return std::nullopt;
  }
  return status;
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

void requeue_slurm_job(const std::string& number, std::chrono::milliseconds patience) {
  const auto fail = [&](const std::string& why) {
    throw IoError(format("job {} could not be put back into Slurm's queue: scontrol requeue {}", number, why));
  };
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_adddup2(&actions, ends[1], output);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // a group of its own, to be killed with what it starts
  std::array<std::string, 3> words = {"scontrol", "requeue", number};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t process = 0;
  const int error = posix_spawnp(&process, "scontrol", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const auto deadline = Clock::now() + patience;
  std::string said = error == 0 ? read_until_end(ends[0], deadline) : "";
  close(ends[0]);
  if (error != 0) fail(std::strerror(error));
  const std::optional<int> status = status_at_end(process, deadline);
  if (!status) fail(format("has not ended within {} s", std::chrono::duration<double>(patience).count()));
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (*status != 0) fail(said.empty() ? "failed" : "says: " + said);
}

}  // namespace levin
