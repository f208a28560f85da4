#include "levin/data/data_loader.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/random/seed.h"
#include "levin/data/distributed_sampler.h"
#include "levin/data/reading_options.h"
#include "levin/data/reading_workers.h"

namespace levin {

void DataLoaderOptions::declare(OptionList<DataLoaderOptions>& options) {
  using O = DataLoaderOptions;
  options.add(&O::batch_size, "Samples in a batch of one rank").min(1);
  options.add(&O::shuffle, "A new order in each epoch");
  options.add(&O::drop_last, "Leave out a last batch that is not full");
  declare_reading(options);
  options.add(&O::seed, "Seed of the order; null: that of seed_everything");
  options.rule({"shuffle"}, [](const O& loader) {
    if (loader.batch_sampler && (loader.shuffle || loader.sampler || loader.drop_last || loader.batch_size != 1)) {
      return "batch_sampler decides all of the order: leave out batch_size, shuffle, sampler and drop_last";
    }
    return loader.shuffle && loader.sampler ? "shuffle and sampler exclude each other; the sampler alone decides the order"
                                            : "";
  });
}

/// What is fixed while an epoch runs. Workers that are behind keep the epoch they work on alive.
struct DataLoader::Epoch {
  DatasetPtr dataset;
  DataLoaderOptions options;
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> ends;  ///< of batches in the indices; empty: each has batch_size of them
  std::int64_t padding;            ///< how many of the indices, at their end, repeat others to make ranks even
  std::int64_t number;
  std::int64_t seed;
  std::int64_t batches;
  bool pin_memory;

  Batch make(std::span<const std::int64_t> samples) const {
    if (!options.collate) return dataset->get_batch(samples);
    std::vector<Batch> single;
    for (const std::int64_t sample : samples) {
      const Batch row = dataset->get_batch({&sample, 1});
      Batch& made = single.emplace_back();
      for (const auto& [name, tensor] : row.items()) made.set(name, tensor.select(0, 0));
    }
    return options.collate(single);
  }

  void take(const std::vector<std::int64_t>& order, const DistributedSampler& part) { indices = part.select(order); }
  void take(const std::vector<std::vector<std::int64_t>>& order, const DistributedSampler& part) {
    std::vector<std::int64_t> places(order.size());
    std::iota(places.begin(), places.end(), 0);
    const std::vector<std::int64_t> own = part.select(places);
    for (const std::int64_t place : own) {
      const auto& batch = order[static_cast<std::size_t>(place)];
      indices.insert(indices.end(), batch.begin(), batch.end());
      ends.push_back(std::ssize(indices));
    }
    const std::int64_t repeated = padding;
    if (repeated > 0) padding = std::ssize(indices) - samples_of(std::ssize(own) - repeated);
  }

  /// How many indices the first batches have.
  std::int64_t samples_of(std::int64_t first_batches) const {
    const auto all = static_cast<std::int64_t>(indices.size());
    if (ends.empty()) return std::min(all, first_batches * options.batch_size);
    return first_batches == 0 ? 0 : ends[static_cast<std::size_t>(std::min<std::int64_t>(first_batches, std::ssize(ends)) - 1)];
  }

  Batch read(std::int64_t batch) const {
    const std::int64_t begin = samples_of(batch);
    const std::int64_t length = samples_of(batch + 1) - begin;
    const std::span<const std::int64_t> samples(indices.data() + begin, static_cast<std::size_t>(length));
    const SampleSeedScope random(seed, number);
    try {
      Batch read = make(samples);
      warn_of_size(read.batch_size(), length);
      return pin_memory ? read.pin_memory() : read;
    } catch (const std::exception& error) {
      std::throw_with_nested(Error(format("{}: {}", place(batch, samples), error_text(error)), exit_code_of(error)));
    }
  }

  static void warn_of_size(std::int64_t rows, std::int64_t samples) {
    if (rows == samples) return;
    Console::instance().warn_once(
        format("The dataset gave a batch of {} for {}: get_batch() has to give one row for each sample. The rows of its "
               "first tensor decide how much a batch counts in means and gradients, and to which samples predictions belong.",
               counted(static_cast<std::size_t>(rows), "row"), counted(static_cast<std::size_t>(samples), "sample")),
        "rows of a batch", Speaker::kRun);
  }

  std::string place(std::int64_t batch, std::span<const std::int64_t> samples) const {
    constexpr std::size_t kShown = 4;
    const auto shown = samples.first(std::min(samples.size(), kShown));
    return format("batch {} of epoch {} could not be read (samples {}{})", batch, number,
                  join(shown, ", ", [](std::int64_t sample) { return std::to_string(sample); }),
                  samples.size() > kShown ? format(", … {}", samples.back()) : "");
  }
};

DataLoader::DataLoader(DatasetPtr dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(checked("DataLoader", std::move(options))) {
  if (!dataset_) throw MisuseError("DataLoader: the dataset is a null pointer");
  pins_memory_ = options_.pin_memory.value_or(false);
  shard_.default_seed = static_cast<std::int64_t>(global_seed().value_or(0));  // outside of a Trainer, which says it itself
}

DataLoader::DataLoader(DataLoader&& other) noexcept = default;
DataLoader::~DataLoader() = default;

const Sampler& DataLoader::sampler() const {
  static const SequentialSampler sequential;
  static const RandomSampler random;
  if (shard_.force_sequential) return sequential;
  if (options_.sampler) return *options_.sampler;
  if (options_.shuffle) return random;
  return sequential;
}

std::int64_t DataLoader::dataset_size() const {
  const std::int64_t size = dataset_->size();
  if (size >= 0) return size;
  throw MisuseError(format(
      "DataLoader: the dataset says that its size is {}: Dataset::size() gives the number of samples, which is at least 0",
      size));
}

std::optional<std::int64_t> DataLoader::batch_size() const {
  return options_.batch_sampler ? std::nullopt : std::optional(options_.batch_size);
}

bool DataLoader::set_batch_size(std::int64_t samples) {
  if (options_.batch_sampler) return false;
  options_.batch_size = samples;
  return true;
}

std::int64_t DataLoader::order_size() const {
  return options_.batch_sampler ? options_.batch_sampler->size(dataset_size()) : sampler().size(dataset_size());
}

std::optional<SampleShare> DataLoader::sample_share() const {
  if (options_.batch_sampler) return std::nullopt;
  SampleShare share{.all = order_size(), .ranks = shard_.world_size};
  const DistributedSampler part(share.all, shard_);
  share.mine = part.size();
  share.evened_out = part.evened_out();
  return share;
}

std::optional<std::uint64_t> DataLoader::data_fingerprint() const { return dataset_->fingerprint(); }

std::optional<std::int64_t> DataLoader::size() const {
  return DistributedSampler(order_size(), shard_).batches(order_per_batch(), options_.drop_last);
}

bool DataLoader::shuffles() const { return options_.batch_sampler ? options_.batch_sampler->shuffles() : sampler().shuffles(); }

std::optional<std::vector<std::int64_t>> DataLoader::epoch_samples(std::int64_t batches) const {
  if (!epoch_) return std::vector<std::int64_t>();
  const auto& indices = epoch_->indices;
  const std::int64_t count = epoch_->samples_of(batches);
  std::vector<std::int64_t> samples(indices.begin(), indices.begin() + count);
  const std::int64_t own = static_cast<std::int64_t>(indices.size()) - epoch_->padding;
  if (count > own) std::fill(samples.begin() + own, samples.end(), -1);
  return samples;
}

void DataLoader::set_shard(const Shard& shard) {
  shard_ = shard;
  if (shard.force_sequential && (options_.shuffle || options_.sampler)) {
    Console::instance().warn_once(
        "overfit_batches takes the first batches in the dataset's order, in each epoch: shuffle or sampler has no effect.",
        "overfit_batches", Speaker::kRun);
  }
  (void)size();  // throws now, rather than in the first epoch, on a shard or sampler that does not fit
  // The first rank has the most, so all ranks throw the same error.
  const std::int64_t samples = order_size();
  Shard first = shard;
  first.rank = 0;
  if (!options_.drop_last || samples == 0 || DistributedSampler(samples, first).batches(options_.batch_size, true) > 0) return;
  throw ConfigError(
      format("DataLoader: drop_last leaves out all {} samples, which make no whole batch of {} on {}: lower "
             "batch_size, or leave drop_last false",
             samples, options_.batch_size, counted(static_cast<std::size_t>(shard.world_size), "rank")));
}

std::int64_t DataLoader::seed() const { return options_.seed.value_or(shard_.default_seed); }

std::vector<std::int64_t> DataLoader::epoch_order(std::int64_t epoch) const {
  const std::int64_t samples = dataset_size();
  const std::int64_t expected = sampler().size(samples);
  std::vector<std::int64_t> order = sampler().order({.dataset_size = samples, .seed = seed(), .epoch = epoch});
  if (static_cast<std::int64_t>(order.size()) != expected) {
    throw MisuseError(
        format("the sampler gave {} samples for epoch {}, and says that an epoch has {}", order.size(), epoch, expected));
  }
  check_indices(order, samples, format("the sampler's order of epoch {}", epoch));
  return order;
}

std::vector<std::vector<std::int64_t>> DataLoader::epoch_batches(std::int64_t epoch) const {
  const std::int64_t samples = dataset_size();
  const std::int64_t expected = options_.batch_sampler->size(samples);
  // Overfitting sees the same batches in each epoch.
  const EpochKey key{.dataset_size = samples, .seed = seed(), .epoch = shard_.force_sequential ? 0 : epoch};
  std::vector<std::vector<std::int64_t>> batches = options_.batch_sampler->batches(key);
  if (std::ssize(batches) != expected) {
    throw MisuseError(format("the batch sampler gave {} batches for epoch {}, and says that an epoch has {}", batches.size(),
                             epoch, expected));
  }
  for (const auto& batch : batches) {
    if (batch.empty()) throw MisuseError(format("the batch sampler gave an empty batch for epoch {}", epoch));
    check_indices(batch, samples, format("the batch sampler's order of epoch {}", epoch));
  }
  return batches;
}

std::optional<std::int64_t> DataLoader::samples_before(std::int64_t batches) const {
  return std::min(order_size(), first_sample_ + batches * order_per_batch() * shard_.world_size);
}

std::optional<std::int64_t> DataLoader::batches_from(std::int64_t samples) const {
  return DistributedSampler(order_size(), shard_, samples).batches(order_per_batch(), options_.drop_last);
}

void DataLoader::start_epoch_at(std::int64_t epoch, std::int64_t samples) {
  const DistributedSampler part(order_size(), shard_, samples);
  auto begun = std::make_shared<Epoch>(Epoch{.dataset = dataset_,
                                             .options = options_,
                                             .indices = {},
                                             .ends = {},
                                             .padding = part.padding(),
                                             .number = epoch,
                                             .seed = seed(),
                                             .batches = part.batches(order_per_batch(), options_.drop_last),
                                             .pin_memory = pins_memory_});
  options_.batch_sampler ? begun->take(epoch_batches(epoch), part) : begun->take(epoch_order(epoch), part);
  first_sample_ = samples;
  epoch_ = std::move(begun);
  next_batch_ = 0;
  if (!reads_ahead()) {
    workers_.reset();
    return;
  }
  if (!workers_) start_workers();
  workers_->start(epoch_->batches, [epoch = epoch_](std::int64_t batch) { return epoch->read(batch); });
}

bool DataLoader::reads_ahead() const {
  // To take a batch over from a thread costs some 20 µs, to copy so many bytes some 100.
  constexpr std::int64_t kSmallBatch = 1 << 20;
  if (options_.num_workers == 0) return false;
  const bool is_plain = !options_.collate && !options_.batch_sampler;
  const std::optional<std::int64_t> bytes = is_plain ? dataset_->bytes_to_copy() : std::nullopt;
  return pins_memory_ || !bytes || *bytes > kSmallBatch / options_.batch_size;
}

void DataLoader::start_workers() {
  workers_ = reading_workers<Batch>(options_.num_workers, std::int64_t{options_.num_workers} * options_.prefetch_factor);
}

std::optional<Batch> DataLoader::next() {
  if (!epoch_) throw MisuseError("DataLoader::next(): call start_epoch() first");
  if (workers_) {
    std::optional<Batch> batch = workers_->next();
    if (!batch && !options_.persistent_workers) {
      workers_.reset();
      next_batch_ = epoch_->batches;
    }
    return batch;
  }
  if (next_batch_ == epoch_->batches) return std::nullopt;
  return epoch_->read(next_batch_++);
}

}  // namespace levin
