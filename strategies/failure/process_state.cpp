#include "levin/strategies/failure/process_state.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "levin/core/base/format.h"

namespace levin {

namespace {

struct Stat {
  char state = 'X';
  std::uint64_t start_time = 0;
};

/// Reads /proc/PID/stat: "PID (name) STATE …", with the start time as field 22. The name may hold anything, ')' included.
std::optional<Stat> read_stat(pid_t process) {
  std::ifstream file(format("/proc/{}/stat", process), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  return fields >> stat.start_time ? std::optional(stat) : std::nullopt;
}

}  // namespace

ProcessId ProcessId::self() {
  const pid_t number = getpid();
  const auto stat = read_stat(number);
  return {number, stat ? stat->start_time : 0};
}

ProcessState process_state(const ProcessId& process) {
  const auto stat = read_stat(process.number);
  if (!stat || stat->start_time != process.start_time) return ProcessState::kGone;
  if (stat->state == 'Z' || stat->state == 'X') return ProcessState::kGone;
  return stat->state == 'T' || stat->state == 't' ? ProcessState::kStopped : ProcessState::kRunning;
}

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
  sigset_t blocked;
  signals.size() == 0 ? sigfillset(&blocked) : sigemptyset(&blocked);
  for (const int signal : signals) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

void kill_processes(const std::vector<pid_t>& processes) noexcept {
  for (const pid_t process : processes) {
    if (process > 0 && kill(process, SIGKILL) == 0) waitpid(process, nullptr, 0);
  }
}

}  // namespace levin
