#include "levin/cli/sweep/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/descriptor.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// In the child: becomes the program, or ends. Only async-signal-safe calls are allowed.
[[noreturn]] void become_program(char* const* words, char* const* environment, const std::array<int, 3>& streams,
                                 pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  // Ctrl-C in the terminal reaches the sweep alone, which passes it on, once.
  setpgid(0, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  dup2(streams[0], STDIN_FILENO);
  dup2(streams[1], STDOUT_FILENO);
  dup2(streams[2], STDERR_FILENO);
  execve(words[0], words, environment);
  constexpr char kMessage[] = "levin: the program could not be started: exec failed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

}  // namespace

fs::path own_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw IoError(format("cannot find the file of this program: /proc/self/exe: {}", error.message()));
  return path;
}

pid_t start_child(const std::vector<std::string>& words, int input, int output, int errors, const std::string& variable) {
  // All memory is made before fork(). The words are not changed: execve() takes them so for the sake of old C.
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  std::vector<char*> environment;
  const std::string name = variable.substr(0, variable.find('=') + 1);
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    if (name.empty() || !std::string_view(*inherited).starts_with(name)) environment.push_back(*inherited);
  }
  if (!variable.empty()) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw IoError(format("cannot start {}: {}", words.front(), std::strerror(errno)));
  if (child == 0) become_program(pointers.data(), environment.data(), {input, output, errors}, parent);
  // Also here, so that a signal to the group finds it at once.
  setpgid(child, child);
  return child;
}

pid_t start_child(const std::vector<std::string>& words, const fs::path& output, const std::string& variable) {
  const Descriptor file(open(output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) throw IoError(format("cannot write {}: {}", output, std::strerror(errno)));
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return start_child(words, nothing.number(), file.number(), file.number(), variable);
}

std::optional<int> status_if_ended(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace levin::cli
