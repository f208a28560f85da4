#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "levin/core/batch.h"
#include "levin/core/export.h"

namespace levin {

/// Samples that are found by index. Batches are asked for whole, so that data in memory costs one copy a tensor, whatever the
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
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// A dataset that makes one sample at a time, such as a folder of image files.
class LEVIN_API SampleDataset : public Dataset {
 public:
  Batch get_batch(std::span<const std::int64_t> indices) const final;

 protected:
  /// One sample; its tensors have no batch dimension.
  virtual Batch get_sample(std::int64_t index) const = 0;
  /// Makes a batch of samples. The default is stack_samples(); override it for samples of different shapes.
  virtual Batch collate(std::span<const Batch> samples) const;
};

/// Stacks the tensors of equal position along a new first dimension, under the names of the first sample.
/// Throws MisuseError, naming sample and tensor, when samples differ in number, name, shape or type of their tensors.
LEVIN_API Batch stack_samples(std::span<const Batch> samples);

namespace detail {
/// Throws MisuseError when an index is not in 0 … size - 1.
void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view who);
}  // namespace detail

}  // namespace levin
