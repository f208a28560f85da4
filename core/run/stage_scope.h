#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "levin/core/run/progress.h"

namespace levin {

/// The time in which a run is in a stage, such as the validation inside fit(). The enclosing stage's progress through its
/// batches comes back at the end; but an error leaves all as it is, so that whoever reports it sees where it happened.
class StageScope {
 public:
  StageScope(Progress& progress, Stage stage, std::vector<LoaderProgress> loaders = {})
      : progress_(progress), outer_stage_(std::exchange(progress.stage, stage)), outer_(progress.batch) {
    progress_.batch.loaders = std::move(loaders);
  }
  ~StageScope() {
    if (std::uncaught_exceptions() > exceptions_) return;
    progress_.batch = std::move(outer_);
    progress_.stage = outer_stage_;
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// The stage's batches are done: what follows, a checkpoint say, is at the enclosing stage's batch.
  void end_batches() {
    std::vector<LoaderProgress> loaders = std::move(progress_.batch.loaders);
    progress_.batch = outer_;
    progress_.batch.loaders = std::move(loaders);
  }

 private:
  Progress& progress_;
  Stage outer_stage_;
  BatchProgress outer_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace levin
