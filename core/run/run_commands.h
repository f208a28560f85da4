#pragma once

#include <atomic>

#include "levin/core/protocol/control_group.h"

namespace levin {

/// What this rank was asked for with Trainer::request(), until the ranks have agreed on it. Threading: ask() and is_paused()
/// from any thread, the rest from the one that runs hooks.
class RunCommands {
 public:
  /// An entry point begins: nothing is asked for.
  void begin() { wants_pause_ = is_paused_ = wants_validation_ = wants_checkpoint_ = stops_after_epoch_ = false; }
  void ask(RunCommand command) {
    if (command == RunCommand::kPause || command == RunCommand::kGoOn) wants_pause_ = command == RunCommand::kPause;
    if (command == RunCommand::kSaveCheckpoint) wants_checkpoint_ = true;
    if (command == RunCommand::kValidate) wants_validation_ = true;
    if (command == RunCommand::kStopAfterEpoch || command == RunCommand::kTrainOn)
      stops_after_epoch_ = command == RunCommand::kStopAfterEpoch;
  }
  /// Adds the wishes to this rank's votes.
  void add_to(Votes& votes) const {
    votes.change_pause = voted_ = wants_pause_ != is_paused_;
    votes.save_checkpoint = wants_checkpoint_;
    votes.validate = wants_validation_;
  }
  /// Ranks: all, with the agreed commands, which each executes next: they are no longer requests.
  void adopt(const Votes& agreed) {
    if (agreed.change_pause) {
      is_paused_ = !is_paused_;
      // What this rank was asked for since it voted is its next vote.
      if (!voted_) wants_pause_ = is_paused_.load();
    }
    if (agreed.save_checkpoint) wants_checkpoint_ = false;
    if (agreed.validate) wants_validation_ = false;
  }
  /// Ranks: all.
  void set_paused(bool paused) { is_paused_ = wants_pause_ = paused; }
  bool is_paused() const { return is_paused_; }
  bool wants_validation() const { return wants_validation_; }
  bool stops_after_epoch() const { return stops_after_epoch_; }

 private:
  std::atomic<bool> wants_pause_ = false;
  std::atomic<bool> is_paused_ = false;
  mutable bool voted_ = false;  ///< for a change of that
  std::atomic<bool> wants_validation_ = false;
  std::atomic<bool> wants_checkpoint_ = false;
  std::atomic<bool> stops_after_epoch_ = false;
};

}  // namespace levin
