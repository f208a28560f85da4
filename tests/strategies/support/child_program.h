#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/copied_program.h"
#include "support/patience.h"

namespace levin_test {

enum class How { kExecuted, kCopied };

/// A program started by a test, with its output in a file. It is killed when it does not end in time, and when the test ends.
/// What it has said is shown with whatever fails after wait(). One that calls become_copy() may be a copy of a loaded one.
class ChildProgram {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  ChildProgram(std::vector<std::string> arguments, const Environment& environment = {}, How how = How::kExecuted) {
    for (const std::string& argument : arguments) command_ += argument + " ";
    char name[] = "/tmp/levin_child_XXXXXX";
    const int output = mkstemp(name);
    path_ = name;
    if (how == How::kCopied) {
      copy_.emplace(levin::test::Start{std::move(arguments), std::filesystem::current_path().string(), whole(environment),
                                       output, output});
      process_ = copy_->process();
      close(output);
      return;
    }
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      for (const auto& [variable, value] : environment) setenv(variable.c_str(), value.c_str(), 1);
      std::vector<char*> pointers;
      for (std::string& argument : arguments) pointers.push_back(argument.data());
      pointers.push_back(nullptr);
      execv(pointers[0], pointers.data());
      _exit(126);
    }
    close(output);
  }
  ~ChildProgram() {
    if (!ended_) {
      kill(process_, SIGKILL);
      if (copy_) {
        copy_->wait();
      } else {
        waitpid(process_, nullptr, 0);
      }
    }
    std::filesystem::remove(path_);
  }
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  pid_t process() const { return process_; }
  void send(int signal) const { kill(process_, signal); }
  std::string output() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  /// The exit status, 128 + signal for a death by signal, and -1, with the program killed, when it did not end in time.
  int wait(std::chrono::seconds limit = std::chrono::seconds(30)) {
    const auto most = levin::test::patience(limit);
    const std::optional<int> ended = copy_ ? copy_->wait(most) : wait_for_child(most);
    said_.emplace(Catch::MessageBuilder("INFO", CATCH_INTERNAL_LINEINFO, Catch::ResultWas::Info) << command_ << "\n"
                                                                                                 << output());
    if (!ended) return -1;
    ended_ = true;
    const int status = *ended;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  /// Waits until the output holds `text` so many times.
  bool wait_for_output(const std::string& text, int times = 1, std::chrono::seconds limit = std::chrono::seconds(30)) const {
    const auto deadline = std::chrono::steady_clock::now() + levin::test::patience(limit);
    while (std::chrono::steady_clock::now() < deadline) {
      if (count(text) >= times) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  int count(const std::string& text) const {
    const std::string all = output();
    int found = 0;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
    return found;
  }
  /// The numbers that stand right after each occurrence of `text`.
  std::vector<int> numbers_after(const std::string& text) const {
    const std::string all = output();
    std::vector<int> numbers;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) {
      numbers.push_back(std::atoi(all.c_str() + at + text.size()));
    }
    return numbers;
  }

 private:
  /// This process's variables, but for those that are given.
  static std::vector<std::string> whole(const Environment& given) {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      const auto is_it = [&](const auto& one) { return text.starts_with(one.first + "="); };
      if (std::none_of(given.begin(), given.end(), is_it)) variables.push_back(text);
    }
    for (const auto& [name, value] : given) variables.push_back(name + "=" + value);
    return variables;
  }
  std::optional<int> wait_for_child(std::chrono::milliseconds limit) const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (waitpid(process_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return status;
  }

  std::optional<levin::test::CopiedProgram> copy_;
  pid_t process_ = 0;
  bool ended_ = false;
  std::optional<Catch::ScopedMessage> said_;
  std::string command_;
  std::string path_;
};

/// True when none of the processes is there any more, or only as a zombie, within the limit.
inline bool all_gone(const std::vector<int>& processes, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + levin::test::patience(limit);
  const auto is_gone = [](int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::size_t end = text.rfind(')');
    return end == std::string::npos || text.compare(end, 3, ") Z") == 0;
  };
  for (const int process : processes) {
    while (!is_gone(process)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return true;
}

}  // namespace levin_test
