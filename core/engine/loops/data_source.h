#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/base/hook.h"
#include "levin/core/data_module.h"
#include "levin/core/engine/parts/hook_runner.h"
#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/random/rng_state.h"

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

/// The hook of an evaluation that gives its loaders; reading a batch of theirs counts as a part of it.
Hook dataloaders_hook(Stage stage);

/// Where an entry point takes its loaders from: a DataModule, or loaders that were passed, or, for those that were not, the
/// module itself. Each loader is told which part of the data this rank reads.
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
  DataModule* data_module() const { return data_; }

 private:
  LoaderPtr ask_for_train(Module& module, const RunSetup& setup, HookRunner& hooks) const;

  DataModule* data_ = nullptr;
  LoaderPtr train_;
  LoaderPtr train_ahead_;
  LoaderList evaluation_;
};

}  // namespace levin
