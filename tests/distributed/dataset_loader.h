#pragma once

#include <torch/torch.h>

#include <memory>

#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"

namespace levin::test {

/// A DataLoader of these samples, under the name x.
inline std::shared_ptr<DataLoader> dataset_loader(const at::Tensor& samples, const DataLoaderOptions& options = {}) {
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(Batch{{"x", samples}}), options);
}

}  // namespace levin::test
