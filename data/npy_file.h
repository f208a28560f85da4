#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "levin/core/export.h"
#include "levin/data/input_file.h"

namespace levin {

/// Reads a NumPy .npy file (format 1 to 3, either byte order, C or Fortran order): bool, integers, floats and complex numbers.
/// Unsigned integers that torch barely supports become wider signed ones: uint16 int32, uint32 and uint64 int64.
/// Throws IoError, naming the file, when it is damaged, or holds Python objects, text, or numbers that do not fit.
LEVIN_API at::Tensor read_npy(const std::filesystem::path& path, double max_expansion = kMaxExpansion);
/// The same for data that is in memory; `name` stands for the file in messages.
LEVIN_API at::Tensor parse_npy(std::string data, const std::string& name);

}  // namespace levin
