#include "levin/strategies/launch/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/strategies/failure/error_file.h"
#include "levin/strategies/failure/print_report.h"
#include "levin/strategies/host/shared_memory_status_board.h"

namespace levin {

namespace {

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

/// How a child has ended, if it has. It stays a zombie, so that its number is no other's while its group may be killed.
std::optional<int> look_at_end(pid_t process) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != process) {
    return std::nullopt;
  }
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
}

}  // namespace

Supervisor::Supervisor(StartedRanks ranks) : segment_(std::move(ranks.segment)) {
  for (const pid_t process : ranks.processes) ranks_.push_back({process, std::nullopt, false});
}

bool Supervisor::is_running() const {
  for (const Rank& rank : ranks_) {
    if (!rank.wait_status) return true;
  }
  return false;
}

void Supervisor::send(int signal) const {
  for (const Rank& rank : ranks_) {
    if (!rank.wait_status) kill(rank.process, signal);
  }
}

void Supervisor::pass_on(int signal) {
  told_to_stop_ |= signal != SIGTSTP && signal != SIGUSR2;
  if (signal != SIGTSTP) return send(signal);
  send(SIGSTOP);
  kill(getpid(), SIGSTOP);
  send(SIGCONT);
}

std::chrono::milliseconds Supervisor::time_to_look_again() { return kBetweenProcessLooks; }

void Supervisor::look() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].wait_status) continue;
    if (const auto wait_status = look_at_end(ranks_[i].process)) {
      note_end(segment_->first_rank() + static_cast<int>(i), *wait_status);
    }
  }
  note_failure();
  if (!failed_rank_) return;
  const bool time_is_over = std::chrono::steady_clock::now() >= kill_time_;
  for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
    // A rank that has failed by being stopped will not end by itself.
    const bool hopeless = rank == *failed_rank_ && process_state(segment_->process_of(rank)) == ProcessState::kStopped;
    if (at(rank).wait_status || at(rank).killed || !(time_is_over || hopeless)) continue;
    kill(at(rank).process, SIGKILL);
    at(rank).killed = true;
  }
}

void Supervisor::note_end(int rank, int wait_status) {
  at(rank).wait_status = wait_status;
  const bool busy = segment_->slot(rank).busy.load(std::memory_order_acquire) != 0;
  const int status = status_of(wait_status);
  // After a signal all ranks stop at the same step and end with 128 + signal, each when it has cleaned up.
  const bool has_joined = segment_->process_of(rank).number != 0;
  const bool ended_in_order = WIFEXITED(wait_status) && has_joined && !busy && (status == 0 || status > kSignalStatus);
  if (ended_in_order) return;
  std::string error = "its process " + text_of(wait_status);
  if (status == 0) error += has_joined ? " in the middle of the run (was exit called?)" : " without taking part in the run";
  // A program whose configuration is wrong says so before it takes part.
  const bool is_final = !has_joined && status == ConfigError("").exit_code();
  const FailureRecord failure{rank, whereabouts_of(*segment_, rank), error, is_final, /*is_lost=*/true};
  if (record_failure(*segment_, failure)) {
    write_error_file(failure);
  } else if (!recorded_failure(*segment_) && !failed_rank_) {
    // Whoever began to write the record has died over it, or is about to finish.
    failed_rank_ = rank;
    kill_time_ = std::chrono::steady_clock::now() + kGrace;
  }
}

void Supervisor::note_failure() {
  if (failed_rank_) return;
  const auto failure = recorded_failure(*segment_);
  if (!failure) return;
  failed_rank_ = failure->rank;
  kill_time_ = std::chrono::steady_clock::now() + kGrace;
}

bool Supervisor::has_said_why(int rank) const {
  const Rank& ended = at(rank);
  if (ended.killed || segment_->slot(rank).explained.load(std::memory_order_acquire) == 0) return false;
  const int status = status_of(*ended.wait_status);
  // What a program does not catch is printed too, by the runtime library, which then aborts.
  return status != 0 && (WIFEXITED(*ended.wait_status) || status == kSignalStatus + SIGABRT);
}

std::string Supervisor::end_of(int rank) const {
  const Rank& ended = at(rank);
  const std::string place = ", " + describe_place(whereabouts_of(*segment_, rank));
  if (ended.killed) return format("did not end within {} s and was killed{}", kGrace.count(), place);
  return text_of(*ended.wait_status) + place;
}

FailureRecord Supervisor::unrecorded_failure() const {
  return {*failed_rank_, whereabouts_of(*segment_, *failed_rank_), "its process " + text_of(*at(*failed_rank_).wait_status)};
}

int Supervisor::finish() {
  note_failure();
  int status = 0;
  for (const Rank& rank : ranks_) {
    if (status == 0) status = status_of(*rank.wait_status);
  }
  for (const Rank& rank : ranks_) {
    // What a rank has started itself, which would keep files, ports and this program's output open.
    if (failed_rank_) kill(-rank.process, SIGKILL);
    waitpid(rank.process, nullptr, 0);
  }
  if (!failed_rank_) return status;
  if (!recorded_failure(*segment_)) print_failure(unrecorded_failure());
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

std::optional<FailureRecord> Supervisor::failure() const {
  if (!failed_rank_) return std::nullopt;
  const auto recorded = recorded_failure(*segment_);
  return recorded ? recorded : unrecorded_failure();
}

std::vector<int> Supervisor::ranks_without_device() const {
  std::vector<int> without;
  for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
    if (segment_->slot(rank).device_missing.load(std::memory_order_acquire) != 0) {
      without.push_back(rank - segment_->first_rank());
    }
  }
  return without;
}

bool Supervisor::any_slot(std::atomic<std::uint32_t> RankSlot::*flag) const {
  for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
    if ((segment_->slot(rank).*flag).load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

std::string Supervisor::why_not_again(bool is_first, bool spans_hosts) const {
  if (told_to_stop_) return "it was told to end by a signal";
  if (failure()->is_final) return "the error is of the configuration or the program, and would come again";
  if (is_first && !any_slot(&RankSlot::entered)) return "it failed before it began";
  // What the ranks of other hosts have failed with is not known here, and all hosts must decide alike.
  return !spans_hosts && !any_slot(&RankSlot::trained) && have_all_failed_alike()
             ? "all ranks failed alike before the first step"
             : "";
}

bool Supervisor::have_all_failed_alike() const {
  for (int rank = segment_->first_rank(); rank < segment_->end_rank(); ++rank) {
    const bool alike = rank == *failed_rank_ ? WIFEXITED(*at(rank).wait_status)
                                             : segment_->slot(rank).failed_alike.load(std::memory_order_acquire) != 0;
    if (!alike) return false;
  }
  return true;
}

}  // namespace levin
