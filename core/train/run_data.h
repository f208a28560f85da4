#pragma once

#include "levin/core/data_module.h"
#include "levin/core/diagnostics/work_watch.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// Goes through one epoch of a loader, always one batch ahead, so that it is known which batch is the last.
class LoaderCursor {
 public:
  /// `limit`: no more batches than this; nullopt for all.
  LoaderCursor(BatchLoader& loader, std::optional<std::int64_t> limit) : loader_(loader), limit_(limit) {}

  /// `batches`: that count as read. `samples`: where in the epoch's global order it begins (BatchLoader::start_epoch_at).
  void start_epoch(std::int64_t epoch, std::int64_t batches = 0, const std::optional<std::int64_t>& samples = {}) {
    samples ? loader_.start_epoch_at(epoch, *samples) : loader_.start_epoch(epoch);
    fetched_ = batches;
    is_whole_ = batches == 0;
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
  /// Warns, once in a run, where the epoch's batches are others than the loader's size() says: fewer, or, which is looked for
  /// once, more, which nobody reads. `name`: "training". Called: when the last one is read.
  void check_size(std::string_view name);

 private:
  void fetch() {
    next_.reset();
    before_reading_.reset();
    if (limit_ && fetched_ >= *limit_) return;
    before_reading_ = RandomSnapshot::take();
    next_ = loader_.next();
    if (next_) ++fetched_;
  }
  /// Random numbers are then as before.
  bool has_more();

  BatchLoader& loader_;
  std::optional<std::int64_t> limit_;
  std::int64_t fetched_ = 0;
  bool is_whole_ = true;  ///< the epoch began with the loader's first batch
  bool looked_for_more_ = false;
  std::optional<Batch> next_;
  std::optional<RandomSnapshot> before_reading_;
};

/// The hook of an evaluation that gives its loaders; reading a batch of theirs counts as a part of it.
Hook dataloaders_hook(Stage stage);

/// Where an entry point takes its loaders from: a DataModule, loaders that were passed, or else the module. Each is told which
/// part of the data this rank reads.
class DataSource {
 public:
  explicit DataSource(DataModule& data) : data_(&data) {}
  /// Null and an empty list: the module's own.
  DataSource(LoaderPtr train, LoaderList evaluation) : train_(std::move(train)), evaluation_(std::move(evaluation)) {}

  /// The one that was asked for ahead, if any; anew when called again. Ranks: all. Throws MisuseError when there is none.
  LoaderPtr train(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// The loader that train() will give, asked for once. Ranks: any. Throws as train() does.
  const BatchLoader& train_ahead(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// What was asked for ahead is out of date.
  void forget_ahead() { train_ahead_.reset(); }
  /// For kValidate, kTest or kPredict.
  LoaderList evaluation(Stage stage, Module& module, const RunSetup& setup, HookRunner& hooks);
  /// Training's and validation's, for a look at them before a fit: others than the fit's, unless they were passed. Ranks: all.
  const LoaderList& for_preview(Module& module, const RunSetup& setup, HookRunner& hooks);
  void forget_preview() { previewed_.clear(); }
  DataModule* data_module() const { return data_; }

 private:
  LoaderPtr ask_for_train(Module& module, const RunSetup& setup, HookRunner& hooks) const;

  DataModule* data_ = nullptr;
  LoaderPtr train_;
  LoaderPtr train_ahead_;
  LoaderList evaluation_;
  LoaderList previewed_;
};

/// Batches of a training epoch as all ranks agreed, or, before the first, of this rank's own loader, which is made for that;
/// -1: unknown.
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

  /// The epoch that comes begins where the run of `resume` had come to. Gives how many of this run's batches lie before. Throws
  /// ConfigError when the loader cannot tell and the run had other ranks or another batch size.
  std::int64_t seek(const ResumePoint& resume);
  /// Starts the epoch, at the place that seek() chose, once. `random`, `counters`: as before its first batch was read.
  void start_epoch(std::int64_t epoch, const RandomStates& random = {}, const std::optional<ReadingCounters>& counters = {});

  /// Trainer::visit_training_data().
  void visit(const PrecisionPolicy& precision, const BatchVisitor& visit);

  bool has_next() const { return cursor_->has_next(); }
  Batch take();
  /// LoaderCursor::check_size(). Called: when an epoch has come to its last batch.
  void check_size();
  /// Of the batch that comes, for check_different_batches(): 0 but for the first of a loader that divides its data by itself.
  std::int64_t mark_of_next();
  /// Samples of the epoch's global order that its first `batches` batches take; unset when the loader cannot tell.
  std::optional<std::int64_t> samples_done(std::int64_t batches) const { return loader_->samples_before(batches - origin_); }
  /// Unset when no batch comes.
  std::optional<BeforeReading> before_reading() const;

 private:
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

/// A run that resumes is where it goes on. What the hooks before, which set up memory, logged and drew does not count.
void resume_here(TrainerState& run, TrainingData& data, const ResumePoint& resume);

}  // namespace levin
