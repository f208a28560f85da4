#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/cli/sweep/awaited_signals.h"
#include "levin/cli/sweep/child_process.h"
#include "levin/cli/sweep/optuna_sampler.h"
#include "levin/cli/sweep/sweep_state.h"
#include "levin/cli/sweep/trial_devices.h"

namespace levin::cli {

/// Runs the trials of a sweep that have not ended, each as a separate `levin fit`. Threading: the main thread.
class TrialRunner {
 public:
  /// `jobs`: trials at a time, at least 1. `devices`: what these divide.
  TrialRunner(SweepState& sweep, std::size_t jobs, TrialDevices devices)
      : sweep_(sweep), jobs_(jobs), devices_(std::move(devices)) {}

  /// Comes back when all have ended, failed ones included, with the state written after each. After a signal, which the trials
  /// are sent too, and when they have ended, it throws Interrupted.
  void run();

 private:
  struct Running {
    std::size_t index;  ///< of the trial
    pid_t process;
    double start_seconds;  ///< in steady_seconds()
    std::size_t slot;
  };

  void run_rung(std::size_t rung);
  /// False, and nothing is started, where a signal comes first.
  bool start(std::size_t index, std::size_t rung);
  /// The first that no running trial has.
  std::size_t free_slot() const;
  void reap_ended(std::size_t rung);
  void record_end(const Running& run, int status, std::size_t rung);
  [[noreturn]] void throw_interrupted(int signal) const;
  std::string progress_text(const Trial& trial, std::size_t rung) const;

  SweepState& sweep_;
  std::size_t jobs_;
  TrialDevices devices_;
  const AwaitedSignals signals_{{SIGINT, SIGTERM, SIGHUP, SIGCHLD}};
  std::optional<OptunaSampler> sampler_;
  std::vector<std::size_t> queue_;  ///< trials of the rung in work, the next one last
  std::vector<Running> running_;
  int stop_signal_ = 0;
};

/// The words of the command that is a trial's part in a rung.
std::vector<std::string> trial_command(const SweepState& sweep, const Trial& trial, std::size_t rung);

/// Why a program failed, of the file with what it printed: its last lines, from "error:" on if that is among them.
std::string failure_in(const std::filesystem::path& output);

}  // namespace levin::cli
