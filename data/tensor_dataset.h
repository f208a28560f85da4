#pragma once

#include "levin/core/export.h"
#include "levin/data/dataset.h"

namespace levin {

/// Data in memory: tensors whose first dimension is the sample.
///
///     auto dataset = std::make_shared<levin::TensorDataset>(levin::Batch{{"image", images}, {"label", labels}});
class LEVIN_API TensorDataset final : public Dataset {
 public:
  /// Throws MisuseError when there is no tensor, or when tensors differ in their first dimension.
  explicit TensorDataset(Batch tensors);
  std::int64_t size() const override { return size_; }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  /// All the data.
  const Batch& tensors() const { return tensors_; }

 private:
  Batch tensors_;
  std::int64_t size_ = 0;
};

}  // namespace levin
