#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/options.h"
#include "levin/data/dataset.h"

namespace levin {

template <class T>
class OrderedPrefetcher;

/// What decides an epoch's order: with these equal, the order is equal, on every rank and in every run.
struct LEVIN_API EpochKey {
  std::int64_t dataset_size = 0;
  std::int64_t seed = 0;  ///< DataLoaderOptions::seed, else the seed of seed_everything
  std::int64_t epoch = 0;
};

/// The order in which an epoch visits the samples, over all ranks together; the loader then gives each rank its part.
/// Derive your order from it: it is never shuffled again.
class LEVIN_API Sampler {
 public:
  virtual ~Sampler();
  /// Indices of the epoch's samples. Ranks: every rank calls it and must get the same; use nothing but `key` and fixed state.
  virtual std::vector<std::int64_t> order(const EpochKey& key) const = 0;
  /// How many indices order() gives, in each epoch. Default: every sample once.
  virtual std::int64_t size(std::int64_t dataset_size) const;
  /// Whether two epochs differ in order.
  virtual bool shuffles() const = 0;
};

/// 0, 1, 2, …
class LEVIN_API SequentialSampler final : public Sampler {
 public:
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  bool shuffles() const override { return false; }
};

/// A permutation, new in each epoch: number for number that of torch's DistributedSampler(shuffle=True, seed=seed) after
/// set_epoch(epoch), before it is divided over ranks.
class LEVIN_API RandomSampler final : public Sampler {
 public:
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  bool shuffles() const override { return true; }
};

/// Draws samples by weight, as torch's WeightedRandomSampler with a generator seeded with seed + epoch.
class LEVIN_API WeightedRandomSampler final : public Sampler {
 public:
  /// One weight a sample, not negative; they need not add up to 1. With `replacement` a sample may come several times.
  /// Throws MisuseError on weights that cannot be drawn from.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t samples_per_epoch, bool replacement = true);
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  std::int64_t size(std::int64_t dataset_size) const override;
  bool shuffles() const override { return true; }

 private:
  std::vector<double> weights_;
  std::int64_t samples_per_epoch_;
  bool replacement_;
};

/// The batches of an epoch, over all ranks together, each a list of indices: for samples of different lengths. The loader then
/// gives each rank every world-size-th batch. Gradients of ranks weigh alike, whatever their batches hold.
class LEVIN_API BatchSampler {
 public:
  virtual ~BatchSampler();
  /// Ranks: every rank calls it and must get the same; use nothing but `key` and fixed state.
  virtual std::vector<std::vector<std::int64_t>> batches(const EpochKey& key) const = 0;
  /// How many batches() gives, in each epoch.
  virtual std::int64_t size(std::int64_t dataset_size) const = 0;
  /// Whether two epochs differ in order.
  virtual bool shuffles() const = 0;
};

struct LEVIN_API LengthBatchOptions {
  /// The most that a batch may hold once its samples are padded: its longest length times its samples. 0: no such bound.
  std::int64_t max_tokens = 0;
  std::int64_t max_samples = 0;  ///< in a batch; 0: no such bound
  bool shuffle = false;          ///< the batches in a new order in each epoch, and samples of one length in new places
};

/// Batches of samples of similar lengths, so that little is padded.
///
///     levin::DataLoader(sentences, {.batch_sampler = std::make_shared<levin::LengthBatchSampler>(
///                                       lengths, levin::LengthBatchOptions{.max_tokens = 4096, .shuffle = true}),
///                                   .collate = pad});
class LEVIN_API LengthBatchSampler final : public BatchSampler {
 public:
  /// `lengths`: of each sample. Throws MisuseError without a bound, and for a sample that is longer than max_tokens.
  LengthBatchSampler(std::vector<std::int64_t> lengths, const LengthBatchOptions& options);
  std::vector<std::vector<std::int64_t>> batches(const EpochKey& key) const override;
  std::int64_t size(std::int64_t dataset_size) const override;
  bool shuffles() const override { return options_.shuffle; }

 private:
  std::vector<std::int64_t> lengths_;
  LengthBatchOptions options_;
  std::vector<std::int64_t> ends_;  ///< of the batches, in samples sorted by length
};

/// A permutation of 0 … size - 1: torch.randperm(size, generator=torch.Generator().manual_seed(seed)).
LEVIN_API std::vector<std::int64_t> random_permutation(std::int64_t size, std::int64_t seed);

struct LEVIN_API DataLoaderOptions {
  std::int64_t batch_size = 1;               ///< samples in a batch of one rank
  bool shuffle = false;                      ///< a new order in each epoch: RandomSampler
  int num_workers = 0;                       ///< threads that read ahead; 0: the training thread reads
  bool drop_last = false;                    ///< leave out a last batch that is not full
  std::optional<bool> pin_memory{};          ///< page-locked memory; unset: when the Trainer uses a GPU
  int prefetch_factor = 2;                   ///< batches that may lie ready, for each worker
  bool persistent_workers = true;            ///< false: threads end with each epoch, and their memory with them
  std::optional<std::int64_t> seed{};        ///< of the order; default: the seed of seed_everything
  std::shared_ptr<const Sampler> sampler{};  ///< your order, instead of `shuffle`
  /// Your batches, instead of batch_size, shuffle, sampler and drop_last.
  std::shared_ptr<const BatchSampler> batch_sampler{};
  /// Makes a batch of samples, whose tensors have no batch dimension: for those of different lengths. The dataset's get_batch()
  /// is then asked for one sample at a time. Threading: as Dataset::get_batch(). Default: the dataset makes the batch.
  std::function<Batch(std::span<const Batch>)> collate{};

  static void declare(OptionList<DataLoaderOptions>& options);
};

/// Batches of a dataset:
///
///     levin::DataLoader(levin::TensorDataset({{"image", images}}), {.batch_size = 32, .shuffle = true, .num_workers = 2})
///
/// Which samples a batch holds, and in which order, depends on dataset size, seed, epoch, batch size and shard, and on nothing
/// else: not on the number of workers. With ranks, the Trainer sets the shard; the loader divides the samples itself.
/// Workers are started by the first epoch and live as long as the loader; batches that are copied faster than they are handed
/// over (Dataset::bytes_to_copy()) are read without any. Each works with one thread (at::get_num_threads() is
/// 1). Random numbers of a sample come from sample_generator().
class LEVIN_API DataLoader final : public BatchLoader {
 public:
  /// Throws ConfigError as checked() does, MisuseError when the dataset is a null pointer.
  explicit DataLoader(DatasetPtr dataset, DataLoaderOptions options = {});
  DataLoader(DataLoader&& other) noexcept;
  ~DataLoader() override;

  /// Exact; nullopt with a batch sampler, whose batches are of different sizes.
  std::optional<std::int64_t> batch_size() const override;
  bool set_batch_size(std::int64_t samples) override;
  std::optional<std::int64_t> size() const override;
  void start_epoch(std::int64_t epoch) override { start_epoch_at(epoch, 0); }
  std::optional<std::int64_t> samples_before(std::int64_t batches) const override;
  std::optional<std::int64_t> batches_from(std::int64_t samples) const override;
  void start_epoch_at(std::int64_t epoch, std::int64_t samples) override;
  /// Throws Error, naming the batch and the original text, and with the original exception nested, when the dataset throws;
  /// the call after that continues with the batch after it.
  std::optional<Batch> next() override;
  /// -1 for a sample that is only there to make ranks even.
  std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t batches) const override;
  /// The dataset's.
  std::string sample_name(std::int64_t sample) const override { return dataset_->sample_name(sample); }
  void set_shard(const Shard& shard) override;
  bool shuffles() const override;
  std::optional<int> num_workers() const override { return options_.num_workers; }
  /// What the options say comes first.
  void set_pin_memory(bool pin) override { pins_memory_ = options_.pin_memory.value_or(pin); }

  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }

  std::optional<SampleShare> sample_share() const override;
  /// The dataset's.
  std::optional<std::uint64_t> data_fingerprint() const override;

 private:
  struct Epoch;

  const Sampler& sampler() const;
  /// Samples in an epoch's order, over all ranks: the dataset's, or as many as the sampler takes.
  std::int64_t dataset_size() const;
  std::int64_t order_size() const;
  /// How many of the order make a batch: with a batch sampler one, as the order is of batches.
  std::int64_t order_per_batch() const { return options_.batch_sampler ? 1 : options_.batch_size; }
  std::int64_t seed() const;
  std::vector<std::int64_t> epoch_order(std::int64_t epoch) const;
  std::vector<std::vector<std::int64_t>> epoch_batches(std::int64_t epoch) const;
  bool reads_ahead() const;
  void start_workers();

  DatasetPtr dataset_;
  DataLoaderOptions options_;
  Shard shard_;
  std::shared_ptr<const Epoch> epoch_;  ///< shared with the workers; null before the first epoch
  std::int64_t first_sample_ = 0;       ///< of the epoch's global order; with a batch sampler, a batch
  std::int64_t next_batch_ = 0;
  bool pins_memory_ = false;
  std::unique_ptr<OrderedPrefetcher<Batch>> workers_;
};

}  // namespace levin
