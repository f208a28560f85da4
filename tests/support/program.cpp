#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "support/copied_program.h"
#include "support/patience.h"

namespace levin::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_write_end();
    close(read_end);
  }
  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

/// This process's variables, with those of the command. No two have one name.
std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> variables;
  const auto has_name = [](const std::string& variable, const std::string& name) { return variable.starts_with(name + "="); };
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [name, value] : command.environment) {
    std::erase_if(variables, [&, &own = name](const std::string& variable) { return has_name(variable, own); });
    if (!value.empty()) variables.push_back(name + "=" + value);
  }
  return variables;
}

/// A process that has been started, the leader of a process group of its own.
class Started {
 public:
  virtual ~Started() = default;
  virtual pid_t process() const = 0;
  /// What waitpid() says of its end.
  virtual int wait() = 0;
};

class StartedByExec : public Started {
 public:
  StartedByExec(const Command& command, const Pipe& out, const Pipe& err) {
    process_ = fork();
    if (process_ < 0) fail("fork");
    if (process_ == 0) become(command, out, err);
    setpgid(process_, process_);  // here too: whichever process comes first
  }
  pid_t process() const override { return process_; }
  int wait() override {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  [[noreturn]] static void become(const Command& command, const Pipe& out, const Pipe& err) {
    setpgid(0, 0);  // so that the whole family can be killed
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
    std::vector<char*> arguments;
    for (const std::string& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    std::vector<std::string> variables = environment_of(command);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    execvpe(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }

  pid_t process_ = -1;
};

class StartedAsCopy : public Started {
 public:
  StartedAsCopy(const Command& command, const Pipe& out, const Pipe& err)
      : copy_({command.arguments, (command.folder.empty() ? std::filesystem::current_path() : command.folder).string(),
               environment_of(command), out.write_end, err.write_end}) {}
  pid_t process() const override { return copy_.process(); }
  int wait() override { return copy_.wait(); }

 private:
  CopiedProgram copy_;
};

std::unique_ptr<Started> start(const Command& command, const Pipe& out, const Pipe& err) {
  if (command.copied) return std::make_unique<StartedAsCopy>(command, out, err);
  return std::make_unique<StartedByExec>(command, out, err);
}

/// Reads what is there. False: the other end is closed.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Reads both pipes until all writers are gone. False: the deadline came first.
bool read_all(Pipe& out, Pipe& err, Clock::time_point deadline, Outcome& outcome) {
  std::array<pollfd, 2> polled = {{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[0].revents != 0 && !drain(out.read_end, outcome.out)) polled[0].fd = -1;
    if (polled[1].revents != 0 && !drain(err.read_end, outcome.err)) polled[1].fd = -1;
  }
  return true;
}

}  // namespace

std::string Outcome::text() const {
  return "status " + std::to_string(status) + (timed_out ? " (killed at its time limit)" : "") + "\n--- standard output\n" +
         out + "--- standard error\n" + err;
}

Command under(const std::vector<std::string>& launcher, Command command) {
  command.arguments.insert(command.arguments.begin(), launcher.begin(), launcher.end());
  command.copied = false;
  return command;
}

Outcome run(const Command& command) {
  Pipe out;
  Pipe err;
  const auto deadline = Clock::now() + patience(command.limit);
  const std::unique_ptr<Started> started = start(command, out, err);
  out.close_write_end();
  err.close_write_end();

  Outcome outcome;
  outcome.timed_out = !read_all(out, err, deadline, outcome);
  if (outcome.timed_out) kill(-started->process(), SIGKILL);
  const int status = started->wait();
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace levin::test
