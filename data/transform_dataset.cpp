#include "levin/data/dataset.h"

#include "levin/core/error.h"

namespace levin {

TransformDataset::TransformDataset(DatasetPtr dataset, Function function)
    : dataset_(std::move(dataset)), function_(std::move(function)) {
  if (!dataset_) throw MisuseError("TransformDataset: the dataset is a null pointer");
  if (!function_) throw MisuseError("TransformDataset: the function is empty");
}

}  // namespace levin
