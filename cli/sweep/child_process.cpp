#include "levin/cli/sweep/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// Where the handler writes to, as a handler sees nothing else.
std::atomic<int> arrivals_end = -1;

void note_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = write(arrivals_end, &byte, 1);
  errno = error;
}

/// In the child: becomes the program, or ends. Only async-signal-safe calls are allowed.
[[noreturn]] void become_program(char* const* words, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  // Ctrl-C in the terminal reaches the sweep alone, which passes it on, once.
  setpgid(0, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv(words[0], words);
  constexpr char kMessage[] = "levin: the program could not be started: exec failed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

}  // namespace

fs::path own_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw IoError(format("cannot tell which program this is: /proc/self/exe: {}", error.message()));
  return path;
}

pid_t start_child(const std::vector<std::string>& words, const fs::path& output) {
  const Descriptor file(open(output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) throw IoError(format("cannot write {}: {}", output, std::strerror(errno)));
  // All memory is made before fork(). The words are not changed: execv() takes them so for the sake of old C.
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw IoError(format("cannot start {}: {}", words.front(), std::strerror(errno)));
  if (child == 0) become_program(pointers.data(), file.number(), parent);
  // Also here, so that a signal to the group finds it at once.
  setpgid(child, child);
  return child;
}

std::optional<int> status_if_ended(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

AwaitedSignals::AwaitedSignals() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError(format("cannot make a pipe: {}", std::strerror(errno)));
  arrivals_ = Descriptor(ends[0]);
  // A full pipe must not stop the handler; whoever reads it looks for all that has happened.
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  arrivals_end = ends[1];
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t index = 0; index < kSignals.size(); ++index) sigaction(kSignals[index], &action, &before_[index]);
}

AwaitedSignals::~AwaitedSignals() {
  for (std::size_t index = 0; index < kSignals.size(); ++index) sigaction(kSignals[index], &before_[index], nullptr);
  close(arrivals_end.exchange(-1));
}

int AwaitedSignals::wait() const {
  char signal = 0;
  while (read(arrivals_.number(), &signal, 1) != 1) {
  }
  return signal;
}

}  // namespace levin::cli
