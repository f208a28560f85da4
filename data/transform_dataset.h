#pragma once

#include <functional>

#include "levin/core/export.h"
#include "levin/data/dataset.h"

namespace levin {

/// Another dataset, with a function applied to each batch, where the batch is read: in a worker thread, when there are any.
class LEVIN_API TransformDataset final : public Dataset {
 public:
  /// Threading: called by several workers at the same time.
  using Function = std::function<Batch(Batch)>;

  /// Throws MisuseError when dataset or function is empty.
  TransformDataset(DatasetPtr dataset, Function function);
  std::int64_t size() const override { return dataset_->size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override { return function_(dataset_->get_batch(indices)); }

 private:
  DatasetPtr dataset_;
  Function function_;
};

}  // namespace levin
