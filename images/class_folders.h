#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// Whether the name of a file is that of an image: .jpg, .jpeg, .jpe, .png, .webp or .bmp, in small or capital letters.
LEVIN_API bool is_image(const std::filesystem::path& file);
/// Puts names of classes in alphabetical order; where all are numbers, in that of numbers.
LEVIN_API void sort_classes(std::vector<std::string>& names);

}  // namespace levin
