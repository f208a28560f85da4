#include "levin/strategies/failure/status_board.h"

#include <unistd.h>

#include <string>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/strategies/failure/failure_record.h"

namespace levin {

StatusBoard::~StatusBoard() = default;

std::string different_calls(int rank, const std::string& what, int other, const std::string& place) {
  return format(
      "ranks are in different calls:\n  rank {}: {}\n  rank {}: the gradient reduction of {}, which cannot end before rank {} "
      "takes part in it",
      rank, what, other, place, rank);
}

void StatusBoard::report_stall(const std::string& waited) noexcept {
  try {
    const int culprit = stalled_rank().value_or(rank());
    const std::string who = culprit == rank() ? "it" : format("the others wait for it: rank {}", rank());
    report_failure({culprit, own_whereabouts(), format("{} {} (timeout_seconds). Ranks are:\n{}", who, waited, table())});
  } catch (const std::exception&) {
    report_failure({rank(), own_whereabouts(), "timeout_seconds"});
  }
}

namespace {
constexpr auto kBetweenBoardLooks = std::chrono::milliseconds(100);
}

FailureWatch::FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings)
    : board_(std::move(board)), settings_(std::move(settings)) {
  if (!settings_.end_process) {
    settings_.end_process = [](const std::string& reason) {
      if (!reason.empty()) print_report(reason);
      _exit(1);
    };
  }
  if (!settings_.print) settings_.print = print_report;
  thread_ = quiet_thread([this] { run(); });
}

FailureWatch::~FailureWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool FailureWatch::stopped_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [this] { return stop_; });
}

void FailureWatch::run() {
  while (!stopped_within(std::chrono::milliseconds(0))) {
    board_->wait_for_failure(kBetweenBoardLooks);
    if (const auto failure = board_->failure()) {
      const bool own = failure->rank == board_->rank();
      if (stopped_within(own ? settings_.own_grace : settings_.grace)) return;
      settings_.end_process(own ? last_word_on_own(*failure) : last_word_on(*failure));
      return;
    }
    check_wait();
    if (const auto ended = board_->unattended_rank()) {
      board_->report_failure(
          {.rank = *ended, .where = {}, .error = "its process ended in the middle of the run", .is_lost = true});
    }
  }
}

std::string FailureWatch::last_word_on_own(const FailureRecord& failure) {
  // Whoever found this rank stalled has told it.
  write_error_file(failure);
  return {};
}

std::string FailureWatch::last_word_on(const FailureRecord& failure) {
  if (board_->has_explained()) return {};
  board_->post_explained();
  const std::string line = board_->explanation().value_or(consequence(board_->rank(), board_->own_whereabouts(), failure));
  write_consequence_file(line, failure);
  return "levin:   " + line;
}

void FailureWatch::check_wait() {
  const auto wait = board_->waiting();
  if (!wait) return;
  const std::string waited = format("waited {} s in {}", static_cast<int>(wait->seconds), wait->what);
  if (wait->in_reduction && wait->seconds > settings_.timeouts.timeout_seconds) {
    board_->report_stall(waited);
  } else if (wait->seconds > settings_.timeouts.stall_report_seconds &&
             board_->claim_stall_report(settings_.timeouts.stall_report_seconds)) {
    settings_.print(format("rank {} has {}. Ranks are:\n{}", board_->rank(), waited, board_->table()));
  }
}

}  // namespace levin
