#include "levin/core/run/run_wishes.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/run/signal_scope.h"

namespace levin {

void RunWishes::begin(bool heeds_signals) {
  const std::lock_guard lock(mutex_);
  if (asked_before_the_end_) {
    stop_asked_ = asked_before_the_end_ = false;
    stop_reason_.clear();
  }
  is_running_ = true;
  heeds_signals_ = heeds_signals;
  stop_agreed_ = skips_epoch_ = false;
  wants_pause_ = is_paused_ = wants_validation_ = wants_checkpoint_ = stops_after_epoch_ = false;
  signal_ = first_rank_ = 0;
}

void RunWishes::end() {
  const std::lock_guard lock(mutex_);
  is_running_ = false;
  asked_before_the_end_ = stop_asked_;
}

void RunWishes::ask_to_stop(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  stop_asked_ = true;
  if (!is_running_) asked_before_the_end_ = false;
  if (!reason.empty()) stop_reason_ = reason;
  ThreadExitGuard::release();
}

void RunWishes::take_back_stop() {
  const std::lock_guard lock(mutex_);
  stop_asked_ = asked_before_the_end_ = false;
  stop_reason_.clear();
}

void RunWishes::ask(RunCommand command) {
  switch (command) {
    case RunCommand::kPause:
    case RunCommand::kContinue:
      wants_pause_ = command == RunCommand::kPause;
      return;
    case RunCommand::kSaveCheckpoint:
      wants_checkpoint_ = true;
      return;
    case RunCommand::kValidate:
      wants_validation_ = true;
      return;
    case RunCommand::kStopAfterEpoch:
    case RunCommand::kCancelStop:
      stops_after_epoch_ = command == RunCommand::kStopAfterEpoch;
      return;
  }
}

Votes RunWishes::votes(bool has_next_batch) const {
  voted_to_change_pause_ = wants_pause_ != is_paused_;
  return {.stop = stop_asked(),
          .end_epoch = skips_epoch_,
          .has_next = has_next_batch,
          .signal = received_signal(),
          .change_pause = voted_to_change_pause_,
          .save_checkpoint = wants_checkpoint_,
          .validate = wants_validation_};
}

void RunWishes::adopt_commands(const Votes& agreed) {
  if (agreed.change_pause) {
    is_paused_ = !is_paused_;
    // Requests to this rank since it voted are its next vote.
    if (!voted_to_change_pause_) wants_pause_ = is_paused_.load();
  }
  if (agreed.save_checkpoint) wants_checkpoint_ = false;
  if (agreed.validate) wants_validation_ = false;
}

int RunWishes::received_signal() const { return heeds_signals_ ? SignalScope::received() : 0; }

Votes RunWishes::adopt(const std::vector<Votes>& by_rank) {
  const Votes merged = merge(by_rank);
  stop_agreed_ = merged.stop;
  if (merged.stop) {
    const auto first = std::ranges::find_if(by_rank, &Votes::stop);
    first_rank_ = static_cast<int>(first - by_rank.begin());
  }
  if (merged.signal != 0) signal_ = merged.signal;
  return merged;
}

void RunWishes::throw_if_signalled(const std::string& where) const {
  if (signal_ == 0) return;
  HeededSignals::settle();
  throw Interrupted(signal_, where);
}

std::string RunWishes::why_stopping(int world_size) const {
  if (const std::string own = stop_reason(); !own.empty()) return own;
  return world_size == 1 ? "stop was requested" : format("rank {} requested it", first_rank_);
}

}  // namespace levin
