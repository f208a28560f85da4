#include "levin/strategies/host/failure_watch.h"

#include <optional>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

FailureWatch::FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings)
    : board_(std::move(board)), settings_(std::move(settings)) {
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
    board_->wait_for_failure(std::chrono::milliseconds(100));
    if (const auto failure = board_->failure()) {
      const bool own = failure->rank == board_->rank();
      if (stopped_within(own ? settings_.own_grace : settings_.grace)) return;
      // One that ends by itself gets as long as the rank that has failed.
      const bool is_ending = !own && board_->has_explained();
      if (is_ending && stopped_within(settings_.own_grace - settings_.grace)) return;
      if (stopped_while_saving()) return;
      // The rank that found this one stalled has reported it.
      if (own) write_error_file(*failure);
      return settings_.end_process(own ? "" : last_word_on(*failure));
    }
    check_wait();
    if (const auto ended = board_->unattended_rank()) {
      board_->report_failure(
          {.rank = *ended, .where = {}, .error = "its process ended in the middle of the run", .is_lost = true});
    }
  }
}

bool FailureWatch::stopped_while_saving() {
  const auto last = std::chrono::steady_clock::now() + settings_.saving_grace;
  while (board_->is_saving() && std::chrono::steady_clock::now() < last) {
    if (stopped_within(std::chrono::milliseconds(20))) return true;
  }
  return false;
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
    return;
  }
  const double after = settings_.timeouts.stall_report_seconds;
  if (after > 0 && wait->seconds > after && board_->claim_stall_report(after)) {
    settings_.print(format("rank {} has {}. Ranks are:\n{}", board_->rank(), waited, board_->table()));
  }
}

}  // namespace levin
