#include "support/copied_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace levin::test {
namespace {

/// The descriptor on which a program that was started for copies receives requests.
constexpr char kRequests[] = "LEVIN_TEST_COPIES";
/// Longer starts do not fit one message.
constexpr std::size_t kLongestRequest = 150000;

template <class Call>
auto restarted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// ---- What is said: the texts of a start, each with its end: the places of three descriptors, out, err and news, which the
// program opens for itself, the folder, the number of arguments, arguments, variables
// ------------------------------------------------

std::string packed(const Start& start, int news) {
  std::string bytes;
  const auto add = [&bytes](const std::string& text) { bytes += text + '\0'; };
  for (const int descriptor : {start.out, start.err, news}) {
    add("/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor));
  }
  add(start.folder);
  add(std::to_string(start.arguments.size()));
  for (const std::string& argument : start.arguments) add(argument);
  for (const std::string& variable : start.environment) add(variable);
  return bytes;
}

/// A start as the program receives it.
class Request {
 public:
  explicit Request(std::string bytes) : bytes_(std::move(bytes)) {
    for (int& descriptor : descriptors) descriptor = open(next(), O_WRONLY | O_APPEND | O_CLOEXEC);
  }
  char* next() {
    char* const here = bytes_.data() + at_;
    at_ += std::strlen(here) + 1;
    return here;
  }
  bool has_more() const { return at_ < bytes_.size(); }

  std::array<int, 3> descriptors{};  ///< out, err, news

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

// ---- The program's side -----------------------------------------------------------------------------------------------------

/// Running copies, by the descriptor that reports their end.
struct Running {
  pid_t process;
  int news;
};

void tell(int news, int fact) {
  static_cast<void>(restarted([&] { return write(news, &fact, sizeof fact); }));
}

/// In the copy: does the work of exec.
void take_on(Request given, int& argc, char**& argv) {
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(given.descriptors[0], STDOUT_FILENO);
  dup2(given.descriptors[1], STDERR_FILENO);
  for (const int descriptor : given.descriptors) close(descriptor);
  // Lives as long as the process, since main() and libraries read its arguments and variables.
  static Request request = std::move(given);
  static std::vector<char*> arguments;
  if (chdir(request.next()) != 0) _exit(126);
  argc = std::atoi(request.next());
  for (int index = 0; index < argc; ++index) arguments.push_back(request.next());
  arguments.push_back(nullptr);
  clearenv();
  while (request.has_more()) putenv(request.next());
  argv = arguments.data();
}

/// Waits for a request, or until no more can come, and for the end of running copies.
void wait_for_request(int requests, std::map<int, Running>& running) {
  while (true) {
    std::vector<pollfd> polled = {{requests, POLLIN, 0}};
    for (const auto& [end, copy] : running) polled.push_back({end, POLLIN, 0});
    restarted([&] { return poll(polled.data(), polled.size(), -1); });
    for (std::size_t index = 1; index < polled.size(); ++index) {
      if (polled[index].revents == 0) continue;
      const Running copy = running.at(polled[index].fd);
      int status = 0;
      restarted([&] { return waitpid(copy.process, &status, 0); });
      tell(copy.news, status);
      close(copy.news);
      close(polled[index].fd);
      running.erase(polled[index].fd);
    }
    if (polled[0].revents != 0) return;
  }
}

// ---- The test's side --------------------------------------------------------------------------------------------------------

/// What libraries read when they are loaded, and never again.
bool is_read_at_load(const std::string& variable) {
  for (const char* beginning : {"LD_", "OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_", "GLIBC_", "TORCH_", "ATEN_", "CUDA_"}) {
    if (variable.starts_with(beginning)) return true;
  }
  return false;
}

/// A loaded program, which ends with this process.
class LoadedProgram {
 public:
  LoadedProgram(const std::string& path, const std::vector<std::string>& environment) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::runtime_error("socketpair");
    requests_ = ends[0];
    std::vector<std::string> variables = environment;
    variables.push_back(std::string(kRequests) + "=" + std::to_string(STDIN_FILENO));
    std::vector<char*> pointers;
    for (std::string& variable : variables) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    std::array<char*, 2> arguments = {const_cast<char*>(path.c_str()), nullptr};
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
      dup2(ends[1], STDIN_FILENO);
      execve(path.c_str(), arguments.data(), pointers.data());
      _exit(127);
    }
    close(ends[1]);
  }
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  bool start(const std::string& request) const {
    return restarted([&] { return send(requests_, request.data(), request.size(), MSG_NOSIGNAL); }) >= 0;
  }

 private:
  int requests_ = -1;
};

/// The program as it was loaded with these variables.
const LoadedProgram& loaded_program(const Start& start) {
  static std::map<std::string, LoadedProgram> programs;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::string key = start.arguments.at(0);
  for (const std::string& variable : start.environment) {
    if (is_read_at_load(variable)) key += '\n' + variable;
  }
  return programs.try_emplace(key, start.arguments.at(0), start.environment).first->second;
}

}  // namespace

void become_copy(int& argc, char**& argv) {
  const char* asked = std::getenv(kRequests);
  if (asked == nullptr) return;
  const int requests = fcntl(std::atoi(asked), F_DUPFD_CLOEXEC, 3);
  std::map<int, Running> running;
  while (true) {
    wait_for_request(requests, running);
    std::string bytes(kLongestRequest, '\0');
    const ssize_t size = restarted([&] { return recv(requests, bytes.data(), bytes.size(), 0); });
    if (size <= 0) break;  // no more requests
    bytes.resize(static_cast<std::size_t>(size));
    Request request(std::move(bytes));
    const pid_t child = fork();
    if (child == 0) {
      close(requests);
      for (const auto& [end, copy] : running) {
        close(end);
        close(copy.news);
      }
      return take_on(std::move(request), argc, argv);
    }
    setpgid(child, child);
    const auto [out, err, news] = request.descriptors;
    close(out);
    close(err);
    tell(news, child);
    const auto end = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    if (end >= 0) running[end] = {child, news};
  }
  _exit(0);
}

Copy start_copy(const Start& start) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const std::string request = packed(start, ends[1]);
  if (request.size() > kLongestRequest) throw std::runtime_error("too long a start for a copy");
  // The program opens the descriptors for itself, and says when it has: until then this end stays open.
  const pid_t process = loaded_program(start).start(request) ? status_of_copy(ends[0]) : -1;
  close(ends[1]);
  if (process <= 0) throw std::runtime_error(start.arguments.at(0) + " does not make copies of itself");
  return {process, ends[0]};
}

int status_of_copy(int news) {
  int fact = -1;
  return restarted([&] { return read(news, &fact, sizeof fact); }) == sizeof fact ? fact : -1;
}

}  // namespace levin::test
