#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "levin/core/checkpoint/mapped_file.h"

namespace levin::detail {

/// The array of a .npy file's bytes, which `owner` keeps: without a copy, unless its numbers are not aligned. Big-endian
/// numbers are turned around in place. Throws as read_npy() does.
at::Tensor npy_of(std::span<char> bytes, const std::string& name, const std::shared_ptr<const void>& owner);

/// Throws IoError that names the file.
std::shared_ptr<MappedFile> map_data_file(const std::filesystem::path& path);

}  // namespace levin::detail
