#pragma once

#include <string_view>

#include "levin/core/formats/package_file.h"
#include "levin/core/formats/tensor_file.h"

namespace levin {

/// Whether a file's bytes are a package of levin_train.export().
bool is_package(std::string_view bytes);
/// The package in these bytes, with copies of its weights. Throws IoError, without the file's name.
PackageFile read_package(std::string_view bytes);
/// The package as a file of tensors. Throws as read_package() does.
TensorFile open_package(std::string_view bytes);
/// The checksums of the files in it.
std::vector<ChecksumReport> package_checks(std::string_view bytes);

}  // namespace levin
