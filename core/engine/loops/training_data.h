#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "levin/core/engine/diagnostics/loader_watch.h"
#include "levin/core/engine/loops/data_source.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/engine/state/resume_state.h"
#include "levin/core/engine/state/trainer_state.h"

namespace levin {

/// Batches of a training epoch as far as a rank can know; -1 for unknown. What all ranks have agreed on; before the first
/// epoch, of this rank's own loader, which is made for that. Ranks: any.
std::int64_t estimated_epoch_batches(TrainerState& run);
/// The same before the first epoch, of all ranks' loaders. Ranks: all.
std::int64_t agreed_epoch_batches(TrainerState& run);

/// The training loader of a fit, one epoch after another, and where in an epoch's data a run that resumes begins.
class TrainingData {
 public:
  TrainingData(TrainerState& run, DataSource& source) : run_(run), source_(source) {}

  /// Asks for the loader, anew when called again. Throws MisuseError when there is none.
  void set_up();
  const BatchLoader& loader() const { return *loader_; }
  /// Batches of a whole epoch on this rank; unset when unknown.
  const std::optional<std::int64_t>& batches() const { return batches_; }
  /// Of the epoch that comes, which may begin at another place than its first batch.
  const std::optional<std::int64_t>& epoch_batches() const { return epoch_batches_; }

  /// The epoch that comes begins where the run that `resume` is of had come to. Gives how many of this run's batches lie
  /// before. Throws ConfigError when the loader cannot tell and the run was one of other ranks or another batch size.
  std::int64_t seek(const ResumePoint& resume);
  /// Starts the epoch, at the place that seek() chose, once. `random`, `counters`: as they were before the batch was read that
  /// comes first.
  void start_epoch(std::int64_t epoch, const RandomStates& random = {}, const std::optional<ReadingCounters>& counters = {});

  bool has_next() const { return cursor_->has_next(); }
  Batch take();
  /// Of the batch that comes, for check_different_batches(): 0 but for the first of a loader that divides its data by itself.
  std::int64_t mark_of_next();
  /// Samples of the epoch's global order that its first `batches` batches take; unset when the loader cannot tell.
  std::optional<std::int64_t> samples_done(std::int64_t batches) const;
  /// Unset when no batch comes.
  std::optional<BeforeReading> before_reading() const;

 private:
  void warn_of_waiting() const;

  TrainerState& run_;
  DataSource& source_;
  LoaderPtr loader_;
  std::unique_ptr<LoaderCursor> cursor_;
  LoaderWatch watch_;
  ReadingCounters read_at_;  ///< the batch that comes
  bool compared_ = false;    ///< with what other ranks begin with
  std::optional<std::int64_t> batches_;
  std::optional<std::int64_t> epoch_batches_;
  std::int64_t origin_ = 0;                     ///< batches of the epoch under way that lie before the loader's first
  std::int64_t batches_before_ = 0;             ///< of the epoch that comes
  std::optional<std::int64_t> samples_before_;  ///< the same in its global order; unset: batches are read and dropped
};

/// A place begins: what changes in it, should it begin anew, is remembered as it is now. `maps`: metrics as they are shown,
/// where the place shows new epoch values.
void begin_place(TrainerState& run, Place place, std::optional<MetricMaps> maps = std::nullopt);

/// A run that resumes has come to where it goes on. The hooks before set up what is in memory; what they logged and drew does
/// not count.
void resume_here(TrainerState& run, TrainingData& data, const ResumePoint& resume);

}  // namespace levin
