#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "levin/core/base/fwd.h"
#include "levin/data/read_file.h"

namespace levin {

/// Reads a file in the IDX format of MNIST, also compressed by gzip or zstd: the tensor of its type (uint8, int8, int16, int32,
/// float32 or float64) and shape. Throws IoError, naming the file, when it is damaged.
LEVIN_API at::Tensor read_idx(const std::filesystem::path& path, double max_expansion = kMaxExpansion);
/// The same for data that is in memory; `name` stands for the file in messages.
LEVIN_API at::Tensor parse_idx(std::string data, const std::string& name);

/// Reads a NumPy .npy file (format 1 to 3, either byte order, C or Fortran order): bool, integers, floats and complex numbers.
/// Unsigned integers that torch barely supports become wider signed ones: uint16 int32, uint32 and uint64 int64.
/// Throws IoError, naming the file, when it is damaged, or holds Python objects, text, or numbers that do not fit.
LEVIN_API at::Tensor read_npy(const std::filesystem::path& path, double max_expansion = kMaxExpansion);
/// The same as a part of the file, which is read where the tensor is touched, and may be larger than the memory. Arrays in
/// Fortran order are not contiguous. Not for compressed files. The file must stay as it is.
LEVIN_API at::Tensor map_npy(const std::filesystem::path& path);
/// The same for data that is in memory; `name` stands for the file in messages.
LEVIN_API at::Tensor parse_npy(std::string data, const std::string& name);

}  // namespace levin
