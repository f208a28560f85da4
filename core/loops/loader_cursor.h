#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/checkpoint/rng_state.h"
#include "levin/core/data_module.h"

namespace levin {

/// Goes through one epoch of a loader, always one batch ahead, so that it is known which batch is the last.
class LoaderCursor {
 public:
  /// `limit`: no more batches than this; nullopt for all.
  LoaderCursor(BatchLoader& loader, std::optional<std::int64_t> limit) : loader_(loader), limit_(limit) {}

  /// `batches`: that count as read.
  void start_epoch(std::int64_t epoch, std::int64_t batches = 0) {
    loader_.start_epoch(epoch);
    fetched_ = batches;
    fetch();
  }
  /// Starts at a place in the epoch's global order: BatchLoader::start_epoch_at.
  void start_epoch_at(std::int64_t epoch, std::int64_t samples, std::int64_t batches) {
    loader_.start_epoch_at(epoch, samples);
    fetched_ = batches;
    fetch();
  }
  bool has_next() const { return next_.has_value(); }
  /// The next batch; has_next() must hold. The one after it is fetched at once.
  Batch take() {
    Batch batch = std::move(*next_);
    fetch();
    return batch;
  }
  /// What take() will give; unset when there is none.
  const std::optional<Batch>& next_batch() const { return next_; }
  /// Random numbers as they were before the next batch was read: a run that resumes reads it again. Unset when there is none.
  const std::optional<RandomSnapshot>& before_reading() const { return before_reading_; }

 private:
  void fetch() {
    next_.reset();
    before_reading_.reset();
    if (limit_ && fetched_ >= *limit_) return;
    before_reading_ = RandomSnapshot::take();
    next_ = loader_.next();
    ++fetched_;
  }

  BatchLoader& loader_;
  std::optional<std::int64_t> limit_;
  std::int64_t fetched_ = 0;
  std::optional<Batch> next_;
  std::optional<RandomSnapshot> before_reading_;
};

}  // namespace levin
