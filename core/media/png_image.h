#pragma once

#include <cstdint>
#include <span>

#include "levin/core/logged_item.h"

namespace levin {

/// Images of one size, in the order of a tensor: image by image, channel by channel, row by row.
struct ImageShape {
  std::int64_t number = 1;
  std::int64_t channels = 1;  ///< 1, 3 or 4
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// One image as a PNG; several as a grid, eight in a row, with two pixels of 0 between. Floats from 0 to 1 become bytes from 0
/// to 255; others are clipped, and NaN becomes 0. Throws IoError when libpng fails, such as for a million rows.
LoggedImage encode_png(std::span<const std::uint8_t> images, const ImageShape& shape);
LoggedImage encode_png(std::span<const float> images, const ImageShape& shape);
/// One image whose pixels are RGB, row by row.
LoggedImage encode_rgb_png(std::span<const std::uint8_t> pixels, std::int64_t width, std::int64_t height);

}  // namespace levin
