#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>

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

/// This process's variables, with those of the command. Names are unique.
std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [name, value] : command.environment) {
    const std::string beginning = name + "=";
    std::erase_if(variables, [&](const std::string& variable) { return variable.starts_with(beginning); });
    if (!value.empty()) variables.push_back(beginning + value);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child.
[[noreturn]] void become(const Command& command, int out, int err) {
  setpgid(0, 0);  // so that all its processes can be killed
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> variables = environment_of(command);
  execvpe(arguments[0].c_str(), pointers_to(arguments).data(), pointers_to(variables).data());
  _exit(127);
}

/// Reads the available bytes. False: the other end is closed.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Reads both pipes until all writers have closed them. False: the deadline came first.
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

Command under(const std::vector<std::string>& launcher, Command command) {
  command.arguments.insert(command.arguments.begin(), launcher.begin(), launcher.end());
  command.copied = false;
  return command;
}

Started::Started(const Command& command, int out, int err) : copied_(command.copied) {
  const int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (out < 0) out = nobody;
  if (err < 0) err = nobody;
  if (copied_) {
    const std::filesystem::path folder = command.folder.empty() ? std::filesystem::current_path() : command.folder;
    const Copy copy = start_copy({command.arguments, folder.string(), environment_of(command), out, err});
    process_ = copy.process;
    news_ = copy.news;
  } else {
    process_ = fork();
    if (process_ < 0) fail("fork");
    if (process_ == 0) become(command, out, err);
    setpgid(process_, process_);  // here too: whichever process comes first
    news_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));
  }
  close(nobody);
}

Started::~Started() {
  if (!status_) {
    kill(-process_, SIGKILL);
    wait();
  }
  close(news_);
}

int Started::wait() { return *wait(std::chrono::milliseconds(-1)); }

std::optional<int> Started::wait(std::chrono::milliseconds limit) {
  if (status_) return status_;
  pollfd ended{news_, POLLIN, 0};
  int polled = 0;
  while ((polled = poll(&ended, 1, static_cast<int>(limit.count()))) < 0 && errno == EINTR) {
  }
  if (polled == 0) return std::nullopt;
  int status = 0;
  if (copied_) {
    status = status_of_copy(news_);
  } else {
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string Outcome::text() const {
  return "status " + std::to_string(status) + (timed_out ? " (killed at its time limit)" : "") + "\n--- standard output\n" +
         out + "--- standard error\n" + err;
}

Outcome run(const Command& command) {
  Pipe out;
  Pipe err;
  const auto deadline = Clock::now() + patience(command.limit);
  Started started(command, out.write_end, err.write_end);
  out.close_write_end();
  err.close_write_end();

  Outcome outcome;
  outcome.timed_out = !read_all(out, err, deadline, outcome);
  if (outcome.timed_out) kill(-started.process(), SIGKILL);
  outcome.status = started.wait();
  return outcome;
}

std::vector<Outcome> run_together(const std::vector<Command>& commands) {
  std::vector<Outcome> outcomes(commands.size());
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < commands.size(); ++index) {
    threads.emplace_back([&, index] { outcomes[index] = run(commands[index]); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::string text_of(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t index = 0; index < outcomes.size(); ++index) {
    text += "---- " + std::to_string(index) + "\n" + outcomes[index].text() + "\n";
  }
  return text;
}

}  // namespace levin::test
