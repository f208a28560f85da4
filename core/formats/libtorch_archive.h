#pragma once

#include <string>

#include "levin/core/formats/pickle.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/formats/torch_file.h"

namespace levin {

/// True for a file that LibTorch's torch::save(module), torch::save(optimizer) or torch::save(tensor) writes in C++; false for
/// a TorchScript program, which has the same structure.
bool is_libtorch_archive(const PickleValue& root);

/// Its tensors by the names of the modules that they are in, joined by dots: parameters and buffers, or the state of an
/// optimizer, which gets a manifest with its options. `key`: only what lies there. Throws IoError, without the file's name.
TensorFile open_libtorch_archive(TorchFile& file, const std::string& key);

}  // namespace levin
