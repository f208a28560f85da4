#pragma once

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/file_text.h"
#include "support/patience.h"
#include "support/program.h"

namespace levin_test {

enum class How { kExecuted, kCopied };

/// A program started by a test, with its output in a file. It is killed when it does not end in time, and when the test ends.
/// Failed checks after wait() show its output.
class ChildProgram {
 public:
  using Environment = levin::test::Environment;

  explicit ChildProgram(const levin::test::Command& command) {
    for (const std::string& argument : command.arguments) command_ += argument + " ";
    const int output = mkstemp(path_.data());
    started_.emplace(command, output, output);
    close(output);
  }
  ChildProgram(std::vector<std::string> arguments, const Environment& environment = {}, How how = How::kExecuted)
      : ChildProgram({.arguments = std::move(arguments), .environment = environment, .copied = how == How::kCopied}) {}
  ~ChildProgram() { std::filesystem::remove(path_); }
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  pid_t process() const { return started_->process(); }
  void send(int signal) const { kill(process(), signal); }
  std::string output() const { return levin::test::read_text(path_); }

  /// The exit status, 128 + signal for a death by signal, and -1 when it did not end in time.
  int wait(std::chrono::seconds limit = std::chrono::seconds(30)) {
    const std::optional<int> status = started_->wait(levin::test::patience(limit));
    said_.emplace(Catch::MessageBuilder("INFO", CATCH_INTERNAL_LINEINFO, Catch::ResultWas::Info) << command_ << "\n"
                                                                                                 << output());
    return status.value_or(-1);
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
  int count(const std::string& text) const { return levin::test::count(output(), text); }
  /// The numbers directly after each occurrence of `text`.
  std::vector<int> numbers_after(const std::string& text) const {
    const std::string all = output();
    std::vector<int> numbers;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) {
      numbers.push_back(std::atoi(all.c_str() + at + text.size()));
    }
    return numbers;
  }
  /// The texts after "name " at the beginning of lines.
  std::vector<std::string> values(const std::string& name) const {
    std::vector<std::string> found;
    for (const std::string& line : levin::test::lines_of(output())) {
      if (line.starts_with(name + " ")) found.push_back(line.substr(name.size() + 1));
    }
    return found;
  }

 private:
  std::string path_ = "/tmp/levin_child_XXXXXX";
  std::string command_;
  std::optional<levin::test::Started> started_;
  std::optional<Catch::ScopedMessage> said_;
};

/// True when all processes have ended within the limit, if only as zombies.
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
