#pragma once

#include <string>

#include "levin/core/state/section.h"

namespace levin {

/// This rank's wishes to stop, to skip the rest of the epoch and to validate, and whether ranks have agreed to stop.
///
///     loops: stop_agreed
///     ranks: R: stop (the reason, or null), has_stopped (a wish to stop has had its effect), skip_epoch, validate
class WishSection final : public Section {
 public:
  WishSection() : Section("wishes", {"loops"}) {}

  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void save_own(TrainerState& run, RankState& state) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_ = {}; }
  /// A wish to stop has ended the saved run. The same on all ranks.
  bool had_stopped() const { return loaded_.has_stopped; }

 private:
  struct Wishes {
    bool stop_agreed = false;
    bool stop = false;
    std::string stop_reason;
    bool skip_epoch = false;
    bool validate = false;
    bool has_stopped = false;
  };
  bool skip_epoch_ = false;
  bool validate_ = false;
  Wishes loaded_;
};

}  // namespace levin
