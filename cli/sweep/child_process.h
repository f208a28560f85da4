#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/files/descriptor.h"

namespace levin::cli {

/// The file of the program that runs now.
std::filesystem::path own_program();

/// Starts a program without a shell, in a process group of its own: `words` are its file and its arguments. What it prints is
/// added to the file `output`, and it can read nothing. It is told to stop (SIGTERM) when the thread that called this ends.
/// Throws IoError.
pid_t start_child(const std::vector<std::string>& words, const std::filesystem::path& output);

/// The exit status of a child that has ended, 128 + n after signal n; nothing while it runs.
std::optional<int> status_if_ended(pid_t child);

/// While one lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD do not end the process, but are waited for. One at a time, in the main
/// thread.
class AwaitedSignals {
 public:
  /// Throws IoError.
  AwaitedSignals();
  ~AwaitedSignals();
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  /// Waits for the next of them.
  int wait() const;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};

  Descriptor arrivals_;
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace levin::cli
