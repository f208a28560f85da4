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
#include <stdexcept>

namespace levin::test {
namespace {

/// The descriptor at which a program that was started for copies is asked for them.
constexpr char kRequests[] = "LEVIN_TEST_COPIES";
/// Longer starts do not fit one message.
constexpr std::size_t kLongestRequest = 150000;

template <class Call>
auto restarted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// ---- What is said: the texts of a start, each with its end, behind their numbers; and three descriptors
// ----------------------

struct Request {
  std::vector<char> bytes;
  std::array<int, 3> descriptors{-1, -1, -1};  ///< out, err, news
};

std::vector<char> packed(const Start& start) {
  std::vector<char> bytes;
  const auto add = [&bytes](const std::string& text) {
    bytes.insert(bytes.end(), text.c_str(), text.c_str() + text.size() + 1);
  };
  add(start.folder);
  add(std::to_string(start.arguments.size()));
  for (const std::string& argument : start.arguments) add(argument);
  for (const std::string& variable : start.environment) add(variable);
  return bytes;
}

bool send_request(int socket, const Request& request) {
  iovec data{const_cast<char*>(request.bytes.data()), request.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof request.descriptors)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof request.descriptors);
  std::memcpy(CMSG_DATA(header), request.descriptors.data(), sizeof request.descriptors);
  return restarted([&] { return sendmsg(socket, &message, MSG_NOSIGNAL); }) >= 0;
}

/// False: nobody asks any more.
bool receive_request(int socket, Request& request) {
  request.bytes.resize(kLongestRequest);
  iovec data{request.bytes.data(), request.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof request.descriptors)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = restarted([&] { return recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
  const cmsghdr* header = size <= 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr) return false;
  request.bytes.resize(static_cast<std::size_t>(size));
  std::memcpy(request.descriptors.data(), CMSG_DATA(header), sizeof request.descriptors);
  return true;
}

// ---- The program's side -----------------------------------------------------------------------------------------------------

/// Copies that run, by the descriptor that tells their end.
struct Running {
  pid_t process;
  int news;
};

void tell(int news, int fact) {
  static_cast<void>(restarted([&] { return write(news, &fact, sizeof fact); }));
}

/// In the copy: what exec would have done.
void take_on(const Request& request, int& argc, char**& argv) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(request.descriptors[0], STDOUT_FILENO);
  dup2(request.descriptors[1], STDERR_FILENO);
  for (const int descriptor : request.descriptors) close(descriptor);
  close(nothing);
  // As long as the process: main() and whoever else looks at its arguments and variables.
  static std::vector<char> texts;
  static std::vector<char*> arguments;
  texts = request.bytes;
  char* text = texts.data();
  const auto next = [&text] {
    char* const here = text;
    text += std::strlen(here) + 1;
    return here;
  };
  if (chdir(next()) != 0) _exit(126);
  const int count = std::atoi(next());
  for (int index = 0; index < count; ++index) arguments.push_back(next());
  arguments.push_back(nullptr);
  clearenv();
  while (text < texts.data() + texts.size()) putenv(next());
  argc = count;
  argv = arguments.data();
}

/// Waits until one is asked for, and meanwhile for the end of those that run. False: nobody asks any more.
bool wait_for_request(int requests, std::map<int, Running>& running) {
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
    if (polled[0].revents != 0) return true;
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

  bool start(const Request& request) const { return send_request(requests_, request); }

 private:
  int requests_ = -1;
};

/// The program as it was loaded with these variables.
const LoadedProgram& loaded_program(const Start& start) {
  static std::map<std::string, LoadedProgram> programs;
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
  Request request;
  while (wait_for_request(requests, running) && receive_request(requests, request)) {
    const pid_t child = fork();
    if (child == 0) {
      close(requests);
      for (const auto& [end, copy] : running) {
        close(end);
        close(copy.news);
      }
      take_on(request, argc, argv);
      return;
    }
    setpgid(child, child);
    close(request.descriptors[0]);
    close(request.descriptors[1]);
    tell(request.descriptors[2], child);
    const auto end = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    if (end >= 0) running[end] = {child, request.descriptors[2]};
  }
  _exit(0);
}

CopiedProgram::CopiedProgram(const Start& start) {
  Request request{packed(start), {}};
  if (request.bytes.size() > kLongestRequest) throw std::runtime_error("too long a start for a copy");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  news_ = ends[0];
  request.descriptors = {start.out, start.err, ends[1]};
  const bool sent = loaded_program(start).start(request);
  close(ends[1]);
  if (sent) process_ = wait();
  if (process_ <= 0) throw std::runtime_error(start.arguments.at(0) + " does not make copies of itself");
}

CopiedProgram::~CopiedProgram() { close(news_); }

int CopiedProgram::wait() {
  int fact = -1;
  return restarted([&] { return read(news_, &fact, sizeof fact); }) == sizeof fact ? fact : -1;
}

std::optional<int> CopiedProgram::wait(std::chrono::milliseconds limit) {
  pollfd ended{news_, POLLIN, 0};
  if (restarted([&] { return poll(&ended, 1, static_cast<int>(limit.count())); }) == 0) return std::nullopt;
  return wait();
}

}  // namespace levin::test
