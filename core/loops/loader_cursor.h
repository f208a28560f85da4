#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "levin/core/data/data_module.h"

namespace levin {

/// Goes through one epoch of a loader, always one batch ahead, so that it is known which batch is the last.
class LoaderCursor {
 public:
  /// `limit`: no more batches than this; nullopt for all.
  LoaderCursor(BatchLoader& loader, std::optional<std::int64_t> limit) : loader_(loader), limit_(limit) {}

  void start_epoch(std::int64_t epoch) {
    loader_.start_epoch(epoch);
    fetched_ = 0;
    fetch();
  }
  bool has_next() const { return next_.has_value(); }
  /// The next batch; has_next() must hold. The one after it is fetched at once.
  Batch take() {
    Batch batch = std::move(*next_);
    fetch();
    return batch;
  }

 private:
  void fetch() {
    next_.reset();
    if (limit_ && fetched_ >= *limit_) return;
    next_ = loader_.next();
    ++fetched_;
  }

  BatchLoader& loader_;
  std::optional<std::int64_t> limit_;
  std::int64_t fetched_ = 0;
  std::optional<Batch> next_;
};

}  // namespace levin
