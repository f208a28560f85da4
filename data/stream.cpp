#include "levin/data/stream.h"

#include <algorithm>
#include <exception>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/random/seed.h"
#include "levin/data/pipeline_steps.h"

namespace levin {
namespace {

pipeline_nodes::Generate batches_of(const Stream::Function& next, const StreamEpoch& epoch) {
  return [next, random = std::make_shared<Random>(rank_seed(epoch))]() -> PipelineValue {
    std::optional<Batch> batch = next(*random);
    return batch ? pipeline_types::made(std::move(*batch)) : nullptr;
  };
}

/// Batches of one function, which goes on where it stands.
Pipeline<Batch> pipeline_of(Stream::Function next) {
  if (!next) throw MisuseError("stream(): the function is empty");
  const auto shared = std::make_shared<Stream::Function>(std::move(next));
  return Pipeline<Batch>(pipeline_nodes::generated([shared](const StreamEpoch& epoch) {
    return batches_of([shared](Random& random) { return (*shared)(random); }, epoch);
  }));
}

Pipeline<Batch> pipeline_of(Stream::Source source) {
  if (!source) throw MisuseError("stream(): the function is empty");
  return Pipeline<Batch>(pipeline_nodes::generated([source = std::move(source)](const StreamEpoch& epoch) {
    const Stream::Function next = source(epoch);
    if (!next) throw MisuseError(format("stream(): the source of epoch {} is an empty function", epoch.epoch));
    return batches_of(next, epoch);
  }));
}

}  // namespace

Stream::Stream(Pipeline<Batch> pipeline, const StreamOptions& options) : pipeline_(std::move(pipeline)), options_(options) {
  if (options.num_workers < 0 || options.prefetch_factor < 1 || options.batch_size.value_or(1) < 1) {
    throw MisuseError("stream(): num_workers is at least 0, prefetch_factor and batch_size are at least 1");
  }
  pins_memory_ = options_.pin_memory.value_or(false);
  shard_.default_seed = static_cast<std::int64_t>(global_seed().value_or(0));  // outside of a Trainer, which says it itself
}

Stream::Stream(Function next, const StreamOptions& options) : Stream(pipeline_of(std::move(next)), options) {}

Stream Stream::of_source(Source source, const StreamOptions& options) {
  return Stream(pipeline_of(std::move(source)), options);
}

StreamEpoch Stream::epoch_of(std::int64_t epoch) const {
  // Overfitting sees the same few batches in each epoch.
  return {.epoch = shard_.force_sequential ? 0 : epoch,
          .rank = shard_.rank,
          .world_size = shard_.world_size,
          .seed = static_cast<std::uint64_t>(options_.seed.value_or(shard_.default_seed))};
}

std::optional<std::int64_t> Stream::batch_size() const {
  return options_.batch_size ? options_.batch_size : facts().batch_size;
}

std::optional<std::int64_t> Stream::size() const { return batches_from(0); }

std::optional<std::int64_t> Stream::samples_before(std::int64_t batches) const {
  const PipelineFacts all = facts();
  if (!all.can_skip) return std::nullopt;
  const std::int64_t before = first_ + batches * shard_.world_size * positions_of_batch();
  return all.samples && !all.is_divided ? std::min(before, *all.samples) : before;
}

std::optional<std::int64_t> Stream::batches_from(std::int64_t samples) const {
  const PipelineFacts all = facts();
  if (!all.size) return std::nullopt;
  if (all.is_divided) return std::max<std::int64_t>(*all.size - samples / (positions_of_batch() * shard_.world_size), 0);
  const std::int64_t left = all.samples ? std::max<std::int64_t>(*all.samples - samples, 0) : *all.size - samples;
  const std::int64_t batches = all.samples ? (left + *all.batch_size - 1) / *all.batch_size : left;
  return share_of(batches, shard_.rank, shard_.world_size);
}

bool Stream::can_start_at(std::int64_t /*samples*/, bool as_saved) const {
  const PipelineFacts all = facts();
  return all.can_skip && (as_saved || !all.is_divided);
}

void Stream::start_epoch_at(std::int64_t epoch, std::int64_t samples) {
  reader_ = nullptr;  // what it holds is closed before the next one opens it
  epoch_ = epoch;
  first_ = samples;
  batches_read_ = 0;
  rows_read_.clear();
  const PipelineFacts all = facts();
  std::unique_ptr<PipelineReader> reader = pipeline_.node()->open(epoch_of(epoch));
  if (all.is_divided) {
    reader->skip(samples / (positions_of_batch() * shard_.world_size));
  } else {
    if (samples > 0) all.batch_size ? reader->skip_samples(samples) : reader->skip(samples);
    reader = std::make_unique<EveryNthReader>(std::move(reader), shard_.rank, shard_.world_size);
  }
  const std::int64_t ahead = std::int64_t{options_.num_workers} * options_.prefetch_factor;
  reader_ = ahead > 0 ? read_ahead(std::move(reader), ahead, options_.num_workers) : std::move(reader);
}

std::optional<Batch> Stream::next() {
  if (!reader_) return std::nullopt;
  const std::int64_t number = batches_read_;
  try {
    std::optional<PipelineElement> element = reader_->next();
    if (!element) {
      reader_ = nullptr;
      return std::nullopt;
    }
    ++batches_read_;
    auto batch = pipeline_types::taken<Batch>(element->take());
    rows_read_.resize(static_cast<std::size_t>(batches_read_));  // one that could not be read had none
    rows_read_.back() = batch.batch_size();
    return pins_memory_ ? batch.pin_memory() : batch;
  } catch (const std::exception& error) {
    if (!facts().can_skip) throw;  // of a function, which is the user's own
    if (batches_read_ == number) ++batches_read_;
    std::throw_with_nested(
        Error(format("batch {} of epoch {} of this rank could not be read: {}", number, epoch_, error_text(error)),
              exit_code_of(error)));
  }
}

std::optional<std::vector<std::int64_t>> Stream::epoch_samples(std::int64_t batches) const {
  const PipelineFacts all = facts();
  if (!all.batch_size || all.is_divided) return std::nullopt;
  std::vector<std::int64_t> samples;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const auto number = static_cast<std::size_t>(batch);
    const std::int64_t rows = number < rows_read_.size() ? rows_read_[number] : *all.batch_size;
    const std::int64_t first = first_ + (batch * shard_.world_size + shard_.rank) * *all.batch_size;
    for (std::int64_t row = 0; row < rows; ++row) samples.push_back(first + row);
  }
  return samples;
}

std::optional<SampleShare> Stream::sample_share() const {
  const PipelineFacts all = facts();
  if (!all.samples || !all.batch_size || all.is_divided) return std::nullopt;
  SampleShare share{.all = *all.samples, .ranks = shard_.world_size};
  const std::int64_t full = *all.samples / *all.batch_size;
  share.mine = share_of(full, shard_.rank, shard_.world_size) * *all.batch_size;
  if (full % shard_.world_size == shard_.rank) share.mine += *all.samples % *all.batch_size;
  return share;
}

std::optional<int> Stream::num_workers() const {
  // A function's batches are made one after another.
  return facts().can_skip || options_.num_workers > 0 ? std::optional(options_.num_workers) : std::nullopt;
}

}  // namespace levin
