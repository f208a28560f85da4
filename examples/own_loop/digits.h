#pragma once

#include <levin/levin.h>

namespace nn = torch::nn;

/// The network that both programs train.
inline nn::Sequential network() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(16 * 4 * 4, 10));
}

/// The data that both read, each rank its part.
inline levin::TableDataModule digits(const std::string& path, std::int64_t batch_size) {
  return levin::TableDataModule({.path = path, .scale = 1.0 / 16, .shape = {1, 8, 8}, .batch_size = batch_size});
}
