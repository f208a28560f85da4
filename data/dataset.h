#pragma once

#include <ATen/core/Generator.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/shared.h"
#include "levin/core/batch.h"

namespace levin {

/// Samples that are found by index. Batches are requested whole, so that data in memory costs one copy a tensor, whatever the
/// batch size. Derive from SampleDataset instead when samples are made one by one.
/// Threading: the worker threads of a DataLoader call get_batch at the same time; it must not change the dataset.
class LEVIN_API Dataset {
 public:
  virtual ~Dataset();
  /// Number of samples; the same on every rank and at every call.
  virtual std::int64_t size() const = 0;
  /// The samples of these indices, each from 0 to size() - 1, in this order: row i of each tensor belongs to indices[i].
  /// An index may occur more than once. What it throws reaches the training loop with the batch named.
  virtual Batch get_batch(std::span<const std::int64_t> indices) const = 0;
  /// A number for what the data is, the same for the same data on every host, and in less than a millisecond: ranks that share
  /// data compare theirs before they read it, so that a host with another version of a file is an error. DataFingerprint makes
  /// one. Default: nullopt, ranks compare size() only.
  virtual std::optional<std::uint64_t> fingerprint() const { return std::nullopt; }
  /// What a sample is called in files of predictions, such as the path of its file: the column `name` there. Default: "", no
  /// name.
  virtual std::string sample_name(std::int64_t /*index*/) const { return ""; }
  /// Bytes of one sample, where reading is nothing but a copy within memory. A DataLoader copies small batches itself, however
  /// many workers it is given: to take them over from a thread would cost more. Default: nullopt, reading is work.
  virtual std::optional<std::int64_t> bytes_to_copy() const { return std::nullopt; }
};

/// Where a dataset is expected: `levin::TensorDataset({{"image", images}})`, or a shared_ptr.
using DatasetPtr = Shared<const Dataset>;

/// Makes a Dataset's fingerprint() of what is given to it, in this order:
///
///     std::optional<std::uint64_t> fingerprint() const override {
///       levin::DataFingerprint fingerprint;
///       for (const auto& file : files_) fingerprint.add(file.filename().string());
///       return fingerprint.value();
///     }
class LEVIN_API DataFingerprint {
 public:
  DataFingerprint& add(std::string_view text);
  DataFingerprint& add(std::int64_t number);
  /// Of long lists some thousand numbers, spread over all.
  DataFingerprint& add(std::span<const std::int64_t> numbers);
  /// Names, shapes and types, and some thousand elements spread over all tensors; of those that are not in the processor's
  /// memory, or are sparse or quantized, no elements.
  DataFingerprint& add(const Batch& tensors);
  std::uint64_t value() const { return hash_; }

 private:
  void add_bytes(std::string_view bytes);

  std::uint64_t hash_ = 0;
};

/// Random numbers for one sample in the epoch that is being read: what a dataset draws from for augmentation.
///
///     Batch get_sample(std::int64_t index) const override {
///       at::Generator random = levin::sample_generator(index);
///       const bool flip = at::rand({}, random).item<float>() < 0.5;
///
/// They are a function of (seed, epoch, index) and of nothing else, so that a sample is augmented alike by any number of
/// workers and ranks, and by a run that resumes, and other ones in each epoch. LibTorch's own generator, from which at::rand
/// draws without one, is shared by all threads: with workers it is undefined which sample gets which of its numbers. `index` is
/// what get_batch() or get_sample() was given. Each call gives a generator that starts again: draw all that a sample needs from
/// one. Threading: called by the thread that called get_batch(). Outside of a loader the seed is that of seed_everything(), and
/// the epoch 0.
LEVIN_API at::Generator sample_generator(std::int64_t index);

/// While it lives, sample_generator() draws on this thread for this seed and epoch. DataLoader has one around get_batch(); a
/// user's loader may do the same.
class LEVIN_API SampleSeedScope {
 public:
  SampleSeedScope(std::int64_t seed, std::int64_t epoch);
  ~SampleSeedScope();
  SampleSeedScope(const SampleSeedScope&) = delete;
  SampleSeedScope& operator=(const SampleSeedScope&) = delete;

 private:
  std::optional<std::pair<std::int64_t, std::int64_t>> outer_;  ///< seed and epoch
};

/// A dataset that makes one sample at a time, such as a folder of image files.
class LEVIN_API SampleDataset : public Dataset {
 public:
  Batch get_batch(std::span<const std::int64_t> indices) const final;

 protected:
  /// One sample; its tensors have no batch dimension. Random numbers: from sample_generator(index).
  virtual Batch get_sample(std::int64_t index) const = 0;
  /// Makes a batch of samples. The default is stack_samples(); override it for samples of different shapes.
  virtual Batch collate(std::span<const Batch> samples) const;
};

/// Stacks the tensors of equal position along a new first dimension, under the names of the first sample.
/// Throws MisuseError, naming sample and tensor, when samples differ in number, name, shape or type of their tensors.
LEVIN_API Batch stack_samples(std::span<const Batch> samples);

/// Data in memory: tensors whose first dimension is the sample.
///
///     levin::TensorDataset({{"image", images}, {"label", labels}})
class LEVIN_API TensorDataset final : public Dataset {
 public:
  /// Throws MisuseError when there is no tensor, or when tensors differ in their first dimension.
  explicit TensorDataset(Batch tensors);
  std::int64_t size() const override { return size_; }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  /// Of names, shapes, types, and some thousand elements spread over the tensors.
  std::optional<std::uint64_t> fingerprint() const override;
  std::optional<std::int64_t> bytes_to_copy() const override;
  /// All the data.
  const Batch& tensors() const { return tensors_; }

 private:
  Batch tensors_;
  std::int64_t size_ = 0;
};

/// Another dataset, with a function applied to each batch, where the batch is read: in a worker thread, when there are any.
class LEVIN_API TransformDataset final : public Dataset {
 public:
  /// Threading: called by several workers at the same time.
  using Function = std::function<Batch(Batch)>;
  /// The same with the samples' indices, row by row: for sample_generator(), with which augmentation is reproducible.
  using IndexedFunction = std::function<Batch(Batch, std::span<const std::int64_t>)>;

  /// Throws MisuseError when dataset or function is empty.
  TransformDataset(DatasetPtr dataset, Function function);
  template <std::invocable<Batch, std::span<const std::int64_t>> F>
  TransformDataset(DatasetPtr dataset, F function) : dataset_(std::move(dataset)), function_(std::move(function)) {
    check();
  }
  std::int64_t size() const override { return dataset_->size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return function_(dataset_->get_batch(indices), indices);
  }
  /// The other dataset's; what the function does is not seen.
  std::optional<std::uint64_t> fingerprint() const override { return dataset_->fingerprint(); }
  std::string sample_name(std::int64_t index) const override { return dataset_->sample_name(index); }

 private:
  void check() const;

  DatasetPtr dataset_;
  IndexedFunction function_;
};

/// Some samples of another dataset, in the order of a list of indices.
class LEVIN_API Subset final : public Dataset {
 public:
  /// Throws MisuseError when the dataset is a null pointer or lacks one of the indices.
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  /// Of the other dataset's and the indices.
  std::optional<std::uint64_t> fingerprint() const override;
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(indices_.at(static_cast<std::size_t>(index)));
  }
  std::optional<std::int64_t> bytes_to_copy() const override { return dataset_->bytes_to_copy(); }
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

/// Divides a dataset at random into parts of these lengths: the numbers of torch.utils.data.random_split with
/// torch.Generator().manual_seed(seed). The same seed gives the same parts on every rank and in every run.
/// Throws MisuseError when the lengths do not add up to the dataset's size.
LEVIN_API std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<std::int64_t>& lengths,
                                                            std::int64_t seed);
/// The same with fractions, which add up to 1: each part is rounded down, and the samples left over go to the parts in turn.
LEVIN_API std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<double>& fractions,
                                                            std::int64_t seed);

}  // namespace levin
