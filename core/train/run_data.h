#pragma once

#include "levin/core/data_module.h"
#include "levin/core/diagnostics/work_watch.h"
#include "levin/core/random/rng_state.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// Iterates over one epoch of a loader, one batch ahead, so that the last batch is known, unless the loader knows
/// (BatchLoader::has_next()).
class LoaderCursor {
 public:
  /// `limit`: no more batches than this; nullopt for all.
  LoaderCursor(BatchLoader& loader, std::optional<std::int64_t> limit) : loader_(loader), limit_(limit) {}

  /// `batches`: count as read. `samples`: where in the epoch's global order it begins (BatchLoader::start_epoch_at).
  void start_epoch(std::int64_t epoch, std::int64_t batches = 0, const std::optional<std::int64_t>& samples = {}) {
    samples ? loader_.start_epoch_at(epoch, *samples) : loader_.start_epoch(epoch);
    fetched_ = batches;
    is_whole_ = batches == 0;
    next_.reset();
    before_reading_.reset();
    if (!loader_.has_next()) fetch();
  }
  bool has_next() const {
    const std::optional<bool> known = loader_.has_next();
    return known ? *known && (!limit_ || fetched_ < *limit_) : next_.has_value();
  }
  /// The next batch; has_next() must hold. The one after it is fetched at once, if that is how to find out whether there is
  /// one.
  Batch take() {
    if (loader_.has_next()) return take_now();
    Batch batch = std::move(*next_);
    fetch();
    return batch;
  }
  /// The batch that take() will return; unset when there is none, or it has not been read.
  const std::optional<Batch>& next_batch() const { return next_; }
  /// Random numbers before the next batch was read, with which a resumed run reads it again. Unset when there is none.
  const std::optional<RandomSnapshot>& before_reading() const { return before_reading_; }
  /// Warns, once in a run, when the epoch's batches differ from the loader's size(): fewer, or more, which are not read and are
  /// looked for once. `name`: "training". Called: when the last one is read.
  void check_size(std::string_view name);

 private:
  /// Of a loader that knows whether it has a batch. Throws MisuseError when it was wrong.
  Batch take_now();
  void fetch() {
    next_.reset();
    before_reading_.reset();
    if (limit_ && fetched_ >= *limit_) return;
    before_reading_ = RandomSnapshot::take();
    next_ = loader_.next();
    if (next_) ++fetched_;
  }
  /// Restores random numbers afterwards.
  bool has_more();

  BatchLoader& loader_;
  std::optional<std::int64_t> limit_;
  std::int64_t fetched_ = 0;
  bool is_whole_ = true;  ///< the epoch began with the loader's first batch
  bool looked_for_more_ = false;
  std::optional<Batch> next_;
  std::optional<RandomSnapshot> before_reading_;
};

/// The hook of an evaluation that returns its loaders; reading their batches counts as a part of it.
Hook dataloaders_hook(Stage stage);

/// The source of an entry point's loaders: loaders that were passed, a DataModule, or else the module. Assigns each loader the
/// part of the data that this rank reads.
class DataSource {
 public:
  explicit DataSource(DataModule& data) : data_(&data) {}
  /// Null and an empty list: those of `data`; without it the module's own.
  DataSource(LoaderPtr train, LoaderList evaluation, DataModule* data = nullptr)
      : data_(data), train_(std::move(train)), evaluation_(std::move(evaluation)) {}

  /// The loader that train_ahead() made, if any; later calls ask for a new one. Ranks: all. Throws MisuseError without one.
  LoaderPtr train(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// The loader that train() will return, requested once. Ranks: any. Throws as train() does.
  const BatchLoader& train_ahead(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// The loader of train_ahead() is out of date.
  void forget_ahead() { train_ahead_.reset(); }
  /// For kValidate, kTest or kPredict.
  LoaderList evaluation(Stage stage, Module& module, const RunSetup& setup, HookRunner& hooks);
  /// Loaders of training and validation for a preview: not those of the fit, unless they were passed. Ranks: all.
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

/// What this rank reads of a loader's data.
Shard shard_of(const RunSetup& setup, Stage stage);

/// Throws MisuseError in a Session. Called: before training data is read other than to train.
void require_training_data(const TrainerState& run);

/// Batches of a training epoch as all ranks agreed or, before the first, of this rank's loader, which this makes; -1: unknown.
std::int64_t estimated_epoch_batches(TrainerState& run);
/// The same before the first epoch, for the loaders of all ranks. Ranks: all.
std::int64_t agreed_epoch_batches(TrainerState& run);

/// The training loader of a fit, one epoch after another, and the point in an epoch's data at which a run resumes.
class TrainingData {
 public:
  TrainingData(TrainerState& run, DataSource& source) : run_(run), source_(source) {}

  /// Asks for the loader, again in each call. Throws MisuseError when there is none.
  void set_up();
  const BatchLoader& loader() const { return *loader_; }
  /// Batches of a whole epoch on this rank; unset when unknown.
  const std::optional<std::int64_t>& batches() const { return batches_; }
  /// Of the next epoch, which may begin after its first batch.
  const std::optional<std::int64_t>& epoch_batches() const { return epoch_batches_; }

  /// The next epoch begins where the run of `resume` was. Returns how many of this run's batches lie before. Throws ConfigError
  /// when the loader cannot tell and the run had another number of ranks or another batch size.
  std::int64_t seek(const ResumePoint& resume);
  /// Starts the epoch, once from the point that seek() chose. `random`, `counters`: as before its first batch was read.
  void start_epoch(std::int64_t epoch, const RandomStates& random = {}, const std::optional<ReadingCounters>& counters = {});

  /// Trainer::visit_training_data().
  void visit(const PrecisionPolicy& precision, const BatchVisitor& visit);

  /// Batches come from the caller of a Session: how many samples they have is known only once it has given one.
  bool is_stepped() const { return run_.entry.is_session; }
  bool has_next() const { return cursor_->has_next(); }
  Batch take();
  /// LoaderCursor::check_size(). Called: when an epoch has reached its last batch.
  void check_size();
  /// Of the next batch, for check_different_batches(): 0 except for the first batch of the run, if the loader does not divide
  /// its data and equal batches are not allowed.
  std::int64_t mark_of_next();
  /// Samples of the epoch's global order in its first `batches` batches; unset when the loader cannot tell.
  std::optional<std::int64_t> samples_done(std::int64_t batches) const { return loader_->samples_before(batches - origin_); }
  /// Unset when there is no next batch.
  std::optional<BeforeReading> before_reading() const;

 private:
  TrainerState& run_;
  DataSource& source_;
  LoaderPtr loader_;
  std::unique_ptr<LoaderCursor> cursor_;
  LoaderWatch watch_;
  ReadingCounters read_at_;  ///< of the next batch
  bool compared_ = false;    ///< the first batch, with those of other ranks
  std::optional<std::int64_t> batches_;
  std::optional<std::int64_t> epoch_batches_;
  std::int64_t origin_ = 0;                     ///< batches of the current epoch before the loader's first
  std::int64_t batches_before_ = 0;             ///< of the next epoch
  std::optional<std::int64_t> samples_before_;  ///< the same in its global order; unset: batches are read and dropped
};

/// A resumed run has reached the point where it was saved. Undoes what earlier hooks, which set up memory, logged and drew.
void resume_here(TrainerState& run, TrainingData& data, const ResumePoint& resume);

}  // namespace levin
