#include "levin/core/loops/training_data.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/loops/epoch_plan.h"

namespace levin {

void TrainingData::set_up() {
  loader_ = source_.train(module_, setup_, hooks_);
  if (!loader_) {
    throw MisuseError(
        "fit needs training data: pass a loader, or a data module (`data:` in a YAML file) whose train_dataloader() gives one, "
        "or let the module's own train_dataloader() do so.");
  }
  const auto& limit = setup_.options.limit_train_batches;
  batches_ = epoch_batches_ = limited_batches(loader_->size(), limit, "limit_train_batches");
  cursor_ = std::make_unique<LoaderCursor>(*loader_, batch_cap(batches_, limit));
}

std::int64_t TrainingData::seek(const ResumePoint& resume) {
  const DataPosition& saved = resume.data;
  const std::int64_t world_size = setup_.world_size();
  const std::int64_t batch_size = loader_->batch_size().value_or(0);
  const std::int64_t ranks_reading = setup_.options.use_distributed_sampler ? world_size : 1;
  const bool same = saved.world_size == world_size && saved.batch_size == batch_size;
  const auto left = saved.samples ? loader_->batches_from(*saved.samples) : std::nullopt;
  if (!same && (!left || batch_size == 0)) {
    throw ConfigError(format(
        "ckpt_path: '{}' is of the middle of an epoch, on {} ranks with batches of {}; this run has {} with "
        "batches of {}, and its training loader cannot tell which samples are left. Resume with as many ranks and the same "
        "batch size, or from the end of an epoch, or let the loader override batch_size(), samples_before(), "
        "batches_from() and start_epoch_at().",
        resume.file, saved.world_size, saved.batch_size, world_size, batch_size));
  }
  batches_before_ = same ? resume.batches_done : *saved.samples / (batch_size * ranks_reading);
  if (left) {
    samples_before_ = saved.samples;
    epoch_batches_ = batches_before_ + *left;
    if (batches_ && setup_.options.limit_train_batches) epoch_batches_ = std::min(*epoch_batches_, *batches_);
  }
  return batches_before_;
}

void TrainingData::start_epoch(std::int64_t epoch, const RandomStates& random) {
  const auto scope = hooks_.enter(Hook::kTrainDataloader);
  LoaderProgress progress{.loader = loader_.get()};
  const bool drops = !samples_before_ && batches_before_ > 0;
  const auto restore = [&] {
    if (!random.empty()) set_random_states(random, setup_.strategy->rank());
  };
  if (!drops) restore();
  if (samples_before_) {
    cursor_->start_epoch_at(epoch, *samples_before_, batches_before_);
  } else {
    cursor_->start_epoch(epoch);
    for (; progress.batches < batches_before_ && cursor_->has_next(); ++progress.batches) {
      // Taking a batch reads the one after it.
      if (progress.batches + 1 == batches_before_) restore();
      cursor_->take();
    }
    progress.skipped = progress.batches;
  }
  progress_.loaders = {progress};
  origin_ = samples_before_ ? batches_before_ : 0;
  batches_before_ = 0;
  samples_before_.reset();
  epoch_batches_ = batches_;
}

std::optional<std::int64_t> TrainingData::samples_done(std::int64_t batches) const {
  return loader_->samples_before(batches - origin_);
}

Batch TrainingData::take() {
  const auto scope = hooks_.enter(Hook::kTrainDataloader);
  Batch batch = cursor_->take();
  ++progress_.loaders.front().batches;
  return batch;
}

}  // namespace levin
