#include "levin/data/dataset.h"

#include "levin/core/base/error.h"

namespace levin {

TransformDataset::TransformDataset(DatasetPtr dataset, Function function) : dataset_(std::move(dataset)) {
  if (function) {
    function_ = [function = std::move(function)](Batch batch, std::span<const std::int64_t>) {
      return function(std::move(batch));
    };
  }
  check();
}

void TransformDataset::check() const {
  if (!dataset_) throw MisuseError("TransformDataset: the dataset is a null pointer");
  if (!function_) throw MisuseError("TransformDataset: the function is empty");
}

}  // namespace levin
