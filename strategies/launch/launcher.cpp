#include "levin/strategies/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/files/descriptor.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/launch/rank_process.h"

namespace levin {

namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGTSTP, SIGCHLD};

int write_end = -1;

void write_signal(int signal) {
  const int before = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(write_end, &byte, 1);
  errno = before;
}

/// Receives the signals that a launcher passes on, and SIGCHLD, as a list to read, as long as it lives. Signals that were
/// ignored stay ignored (nohup). One at a time in a process.
class SignalPipe {
 public:
  /// Throws IoError.
  SignalPipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw IoError(format("pipe failed: {}", std::strerror(errno)));
    read_end_ = Descriptor(ends[0]);
    write_end_ = Descriptor(ends[1]);
    write_end = ends[1];
    for (const int signal : kSignals) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler == SIG_IGN && signal != SIGCHLD) continue;
      taken_.push_back({signal, action});
      action = {};
      action.sa_handler = write_signal;
      action.sa_flags = SA_RESTART;
      sigaction(signal, &action, nullptr);
    }
  }

  ~SignalPipe() {
    for (const Taken& taken : taken_) sigaction(taken.signal, &taken.before, nullptr);
  }

  /// Waits for signals, at most `limit`. SIGCHLD ends the wait and is not in the list.
  std::vector<int> wait(std::chrono::milliseconds limit) {
    is_ready_by(std::chrono::steady_clock::now() + limit, read_end_.number(), POLLIN);
    std::vector<int> signals;
    std::array<unsigned char, 64> bytes{};
    ssize_t count = 0;
    while ((count = read(read_end_.number(), bytes.data(), bytes.size())) > 0) {
      for (ssize_t i = 0; i < count; ++i) {
        if (bytes[static_cast<std::size_t>(i)] != SIGCHLD) signals.push_back(bytes[static_cast<std::size_t>(i)]);
      }
    }
    return signals;
  }

 private:
  struct Taken {
    int signal;
    struct sigaction before;
  };
  Descriptor read_end_;
  Descriptor write_end_;
  std::vector<Taken> taken_;
};

/// What ranks get to end by themselves after one has failed.
constexpr auto kGrace = std::chrono::seconds(3);
constexpr auto kBetweenProcessLooks = std::chrono::milliseconds(100);
constexpr int kSignalStatus = 128;

/// The shell's view: the exit status, or 128 + the signal.
int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kSignalStatus + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string text_of(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return format("ended with exit status {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return format("was killed by signal {} ({})", signal, strsignal(signal));
}

/// How a child has ended, if it has. It stays a zombie, so that its number is not reused while its group may be killed.
std::optional<int> poll_end(pid_t process) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != process) {
    return std::nullopt;
  }
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
}

/// Watches started ranks until all have ended, and says how the run went.
class Supervisor {
 public:
  explicit Supervisor(StartedRanks ranks) : segment_(std::move(ranks.segment)) {
    for (const pid_t process : ranks.processes) ranks_.push_back({process, std::nullopt, false});
  }

  bool is_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.wait_status; });
  }

  /// Hands keys of the launcher's terminal on to rank 0.
  void pass_keys(Keys& keys) {
    if (OwnProcess::is_one()) keys.pass_to(segment_->header().keys);
  }

  /// Sends a signal that the launcher received to the ranks. SIGTSTP stops them and the launcher until it is continued.
  void pass_on(int signal) {
    asked_to_stop_ |= signal != SIGTSTP && signal != SIGUSR2;
    if (signal != SIGTSTP) return send(signal);
    send(SIGSTOP);
    // What rank 0 is drawing just now would come after.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    restore_terminal();
    kill(getpid(), SIGSTOP);
    send(SIGCONT);
  }

  /// Notices ranks that have ended or failed, and ends the others when their time is over.
  void look() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].wait_status) continue;
      if (const auto wait_status = poll_end(ranks_[i].process)) {
        note_end(segment_->first_rank() + static_cast<int>(i), *wait_status);
      }
    }
    note_failure();
    if (!failed_rank_) return;
    const auto since_failure = std::chrono::steady_clock::now() - failed_at_;
    for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
      // A rank that has failed by being stopped will not end by itself.
      const bool hopeless = rank == *failed_rank_ && process_state(segment_->process_of(rank)) == ProcessState::kStopped;
      if (at(rank).wait_status || at(rank).killed || !(since_failure >= grace_of(rank) || hopeless)) continue;
      kill(at(rank).process, SIGKILL);
      at(rank).killed = true;
    }
  }

  /// Called: when no rank is left. After a failure it ends the processes that ranks have started, prints one line for each rank
  /// but the failed one and those that have said themselves why they ended, and gives the status of the run.
  int finish() {
    note_failure();
    int status = 0;
    for (const Rank& rank : ranks_) {
      if (status == 0) status = status_of(*rank.wait_status);
      // What a rank has started itself, which would keep files, ports and this program's output open.
      if (failed_rank_) kill(-rank.process, SIGKILL);
      waitpid(rank.process, nullptr, 0);
    }
    if (!failed_rank_) return status;
    if (!recorded_failure(*segment_)) print_failure(*failure());
    std::vector<std::string> lines;
    for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
      if (rank == *failed_rank_ || has_said_why(rank)) continue;
      lines.push_back(format("levin:   rank {} {}", rank, end_of(rank)));
    }
    if (!lines.empty()) print_report(join(lines, "\n"));
    const bool is_here = segment_->has(*failed_rank_);
    const int failed_status = !is_here || at(*failed_rank_).killed ? 1 : status_of(*at(*failed_rank_).wait_status);
    return failed_status == 0 ? 1 : failed_status;
  }

  /// What ended the run, once that is over; nothing where it did not fail.
  std::optional<FailureRecord> failure() const {
    if (!failed_rank_) return std::nullopt;
    if (const auto recorded = recorded_failure(*segment_)) return recorded;
    // It was not recorded.
    return FailureRecord{*failed_rank_, whereabouts_of(*segment_, *failed_rank_),
                         "its process " + text_of(*at(*failed_rank_).wait_status)};
  }

  /// The state that the ranks have stored for a later attempt.
  std::string restart_state() const { return segment_->header().restart_state.read(); }
  /// The local ranks that have raised a flag.
  std::vector<int> ranks_with(std::atomic<std::uint32_t> RankSlot::*flag) const {
    std::vector<int> found;
    for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
      if (has_raised(rank, flag)) found.push_back(rank - segment_->first_rank());
    }
    return found;
  }

  /// Why another attempt would not help, or is not wanted; "" where it may. `is_first`: this attempt was the run's first;
  /// `spans_hosts`: the run has ranks elsewhere.
  std::string why_not_again(bool is_first, bool spans_hosts) const {
    if (asked_to_stop_) return "a signal asked it to end";
    if (failure()->is_final) return "the error is in the configuration or the program, and would recur";
    if (is_first && ranks_with(&RankSlot::entered).empty()) return "it failed before it started";
    // The failures of other hosts' ranks are unknown here, and all hosts must decide the same.
    return !spans_hosts && ranks_with(&RankSlot::trained).empty() && have_all_failed_alike()
               ? "all ranks failed with the same error before the first step"
               : "";
  }

 private:
  struct Rank {
    pid_t process = 0;
    std::optional<int> wait_status;  ///< set once it has ended
    bool killed = false;             ///< by us, when its time was over
  };
  void note_end(int rank, int wait_status) {
    at(rank).wait_status = wait_status;
    const int status = status_of(wait_status);
    // After a signal all ranks stop at the same step and end with 128 + signal, each when it has cleaned up.
    const bool has_joined = segment_->process_of(rank).number != 0;
    const bool ended_in_order =
        WIFEXITED(wait_status) && has_joined && !has_raised(rank, &RankSlot::busy) && (status == 0 || status > kSignalStatus);
    if (ended_in_order) return;
    std::string error = "its process " + text_of(wait_status);
    if (status == 0) error += has_joined ? " in the middle of the run (was exit called?)" : " without taking part in the run";
    // A program whose configuration is wrong says so before it takes part.
    const bool is_final = !has_joined && status == ConfigError("").exit_code();
    const FailureRecord failure{rank, whereabouts_of(*segment_, rank), error, is_final, /*is_lost=*/true};
    if (record_failure(*segment_, failure)) {
      write_error_file(failure);
    } else if (!recorded_failure(*segment_) && !failed_rank_) {
      // The writer of the record has died, or is about to finish.
      begin_end_after(rank);
    }
  }

  void note_failure() {
    if (failed_rank_) return;
    if (const auto failure = recorded_failure(*segment_)) begin_end_after(failure->rank);
  }

  void begin_end_after(int failed_rank) {
    failed_rank_ = failed_rank;
    failed_at_ = std::chrono::steady_clock::now();
  }

  std::chrono::seconds grace_of(int rank) const { return has_raised(rank, &RankSlot::saving) ? kGrace + kSavingGrace : kGrace; }

  /// The rank has printed its own line.
  bool has_said_why(int rank) const {
    const Rank& ended = at(rank);
    if (ended.killed || !has_raised(rank, &RankSlot::explained)) return false;
    const int status = status_of(*ended.wait_status);
    // What a program does not catch is printed too, by the runtime library, which then aborts.
    return status != 0 && (WIFEXITED(*ended.wait_status) || status == kSignalStatus + SIGABRT);
  }

  void send(int signal) const {
    for (const Rank& rank : ranks_) {
      if (!rank.wait_status) kill(rank.process, signal);
    }
  }

  std::string end_of(int rank) const {
    const Rank& ended = at(rank);
    const std::string place = ", " + describe_place(whereabouts_of(*segment_, rank));
    if (ended.killed) return format("did not end within {} s and was killed{}", grace_of(rank).count(), place);
    return text_of(*ended.wait_status) + place;
  }

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank - segment_->first_rank())]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank - segment_->first_rank())]; }
  bool have_all_failed_alike() const {
    for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
      const bool alike = rank == *failed_rank_ ? WIFEXITED(*at(rank).wait_status) : has_raised(rank, &RankSlot::failed_alike);
      if (!alike) return false;
    }
    return true;
  }

  bool has_raised(int rank, std::atomic<std::uint32_t> RankSlot::*flag) const {
    return (segment_->slot(rank).*flag).load(std::memory_order_acquire) != 0;
  }

  std::shared_ptr<RunSegment> segment_;
  std::vector<Rank> ranks_;         ///< by local rank
  std::optional<int> failed_rank_;  ///< which may be another host's
  bool asked_to_stop_ = false;
  std::chrono::steady_clock::time_point failed_at_{};
};

/// The attempts of a run, one after the other.
class Attempts {
 public:
  explicit Attempts(const LaunchPlan& plan) : plan_(plan) {
    for (int device = 0; device < plan.local_ranks; ++device) devices_.push_back(device);
  }

  RunEnd run() {
    while (true) {
      Supervisor supervisor(start_ranks(specs(), restart_state_));
      if (restarts_ == plan_.max_restarts) ForkServer::instance().end();
      while (supervisor.is_running()) {
        const std::vector<int> signals = signals_.wait(kBetweenProcessLooks);
        // Before signals: what rank 0 has just begun to show may have to be taken away.
        supervisor.pass_keys(keys_);
        for (const int signal : signals) supervisor.pass_on(signal);
        supervisor.look();
      }
      // Rank 0 may have been killed.
      restore_terminal();
      const int status = supervisor.finish();
      restart_state_ = supervisor.restart_state();
      std::fflush(nullptr);
      if (!supervisor.failure() || !start_again_after(supervisor)) return {status, supervisor.failure()};
    }
  }

 private:
  std::vector<RankSpec> specs() const {
    std::vector<RankSpec> specs;
    for (const int device : devices_) {
      specs.push_back({.local_rank = static_cast<int>(specs.size()),
                       .local_ranks = static_cast<int>(devices_.size()),
                       .host = plan_.host,
                       .hosts = plan_.hosts,
                       .device = device,
                       .restarts = restarts_,
                       .call = plan_.call});
    }
    return specs;
  }

  bool start_again_after(const Supervisor& supervisor) {
    if (plan_.max_restarts == 0) return false;
    if (go_on_without(supervisor.ranks_with(&RankSlot::device_missing))) return true;
    std::string hindrance = supervisor.why_not_again(restarts_ == 0, plan_.hosts > 1);
    if (hindrance.empty() && restarts_ == plan_.max_restarts) {
      hindrance = format("max_restarts={} is used up", plan_.max_restarts);
    }
    if (!hindrance.empty()) {
      print_report("levin: no restart: " + hindrance);
      return false;
    }
    ++restarts_;
    print_report(format("levin: restarting the run, attempt {} of {}, because {}", restarts_ + 1, plan_.max_restarts + 1,
                        supervisor.failure()->place()));
    return true;
  }

  /// True when the run continues with fewer ranks than the last attempt.
  bool go_on_without(const std::vector<int>& local_ranks) {
    const int left = static_cast<int>(devices_.size() - local_ranks.size());
    if (local_ranks.empty() || !plan_.min_devices || left < *plan_.min_devices) return false;
    for (auto rank = local_ranks.rbegin(); rank != local_ranks.rend(); ++rank) devices_.erase(devices_.begin() + *rank);
    print_report(format("levin: the run continues with {}, because the others' devices are gone (min_devices={})",
                        counted(devices_.size(), "rank"), *plan_.min_devices));
    return true;
  }

  LaunchPlan plan_;
  SignalPipe signals_;
  Keys keys_;
  std::vector<int> devices_;   ///< by local rank
  std::string restart_state_;  ///< of earlier attempts
  int restarts_ = 0;
};

}  // namespace

RunEnd run_ranks(const LaunchPlan& plan) {
  // The memory and sockets that ranks inherit must not have the numbers that messages are written to.
  open_standard_descriptors();
  // What the program has printed so far is printed once, before anything of the ranks.
  std::fflush(nullptr);
  return Attempts(plan).run();
}

void launch_ranks(const LaunchPlan& plan) {
  // Not exit(): the objects of the user's program belong to the ranks, and were never meant to be used here.
  _exit(run_ranks(plan).status);
}

}  // namespace levin
