#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/batch_loader.h"
#include "levin/core/options/options.h"
#include "levin/data/dataset.h"
#include "levin/data/sampler.h"

namespace levin {

template <class T>
class OrderedPrefetcher;

struct LEVIN_API DataLoaderOptions {
  std::int64_t batch_size = 1;               ///< samples in a batch of one rank
  bool shuffle = false;                      ///< a new order in each epoch: RandomSampler
  int num_workers = 0;                       ///< threads that read ahead; 0: the training thread reads
  bool drop_last = false;                    ///< leave out a last batch that is not full
  std::optional<bool> pin_memory{};          ///< page-locked memory; unset: when the Trainer uses a GPU
  int prefetch_factor = 2;                   ///< batches that may lie ready, for each worker
  bool persistent_workers = true;            ///< false: threads end with each epoch, and their memory with them
  std::optional<std::int64_t> seed{};        ///< of the order; default: the seed of seed_everything
  std::shared_ptr<const Sampler> sampler{};  ///< an order of your own, in place of `shuffle`
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

  /// Exact.
  std::optional<std::int64_t> batch_size() const override { return options_.batch_size; }
  bool set_batch_size(std::int64_t samples) override {
    options_.batch_size = samples;
    return true;
  }
  std::optional<std::int64_t> size() const override;
  void start_epoch(std::int64_t epoch) override { start_epoch_at(epoch, 0); }
  std::optional<std::int64_t> samples_before(std::int64_t batches) const override;
  std::optional<std::int64_t> batches_from(std::int64_t samples) const override;
  void start_epoch_at(std::int64_t epoch, std::int64_t samples) override;
  /// Throws Error, naming the batch and the original text, and with the original exception nested, when the dataset throws;
  /// the call after that goes on with the batch after it.
  std::optional<Batch> next() override;
  /// -1 for a sample that is only there to make ranks even.
  std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t batches) const override;
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
  std::int64_t seed() const;
  std::vector<std::int64_t> epoch_order(std::int64_t epoch) const;
  bool reads_ahead() const;
  void start_workers();

  DatasetPtr dataset_;
  DataLoaderOptions options_;
  Shard shard_;
  std::shared_ptr<const Epoch> epoch_;  ///< shared with the workers; null before the first epoch
  std::int64_t first_sample_ = 0;       ///< of the epoch's global order
  std::int64_t next_batch_ = 0;
  bool pins_memory_ = false;
  std::unique_ptr<OrderedPrefetcher<Batch>> workers_;
};

}  // namespace levin
