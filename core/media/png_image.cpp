#include "levin/core/media/png_image.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr std::int64_t kImagesInRow = 8;
constexpr std::int64_t kGap = 2;

/// Pixels, row by row, each with its channels together.
struct Pixels {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 1;
  std::vector<std::uint8_t> bytes{};
};

std::uint8_t as_byte(std::uint8_t value) { return value; }
std::uint8_t as_byte(float value) {
  // Of NaN no comparison holds.
  return value > 0 ? static_cast<std::uint8_t>(std::lround(std::min(value, 1.0F) * 255)) : std::uint8_t{0};
}

template <class Number>
Pixels grid_of(std::span<const Number> images, const ImageShape& shape) {
  const std::int64_t columns = std::min(shape.number, kImagesInRow);
  const std::int64_t rows = (shape.number + columns - 1) / columns;
  Pixels grid{.width = columns * (shape.width + kGap) - kGap,
              .height = rows * (shape.height + kGap) - kGap,
              .channels = shape.channels};
  grid.bytes.resize(static_cast<std::size_t>(grid.width * grid.height * grid.channels));
  auto from = images.begin();
  for (std::int64_t image = 0; image < shape.number; ++image) {
    const std::int64_t left = image % columns * (shape.width + kGap);
    const std::int64_t top = image / columns * (shape.height + kGap);
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      for (std::int64_t y = 0; y < shape.height; ++y) {
        auto to = grid.bytes.begin() + ((top + y) * grid.width + left) * grid.channels + channel;
        for (std::int64_t x = 0; x < shape.width; ++x) to[x * grid.channels] = as_byte(*from++);
      }
    }
  }
  return grid;
}

png_uint_32 png_format_of(std::int64_t channels) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  return channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

/// `pixels`: row by row, each with its channels together.
LoggedImage encoded(std::span<const std::uint8_t> pixels, std::int64_t width, std::int64_t height, std::int64_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = png_format_of(channels);
  LoggedImage result{.png = {}, .width = width, .height = height, .channels = channels};
  // More than any PNG of such pixels takes, so that it is encoded once.
  png_alloc_size_t length = PNG_IMAGE_PNG_SIZE_MAX(image);
  result.png.resize(length);
  const int written = png_image_write_to_memory(&image, result.png.data(), &length, /*convert_to_8_bit=*/0, pixels.data(),
                                                /*row_stride=*/0, /*colormap=*/nullptr);
  if (written == 0) {
    throw IoError(format("an image of {} x {} pixels cannot be written as PNG: {}", width, height,
                         static_cast<const char*>(image.message)));
  }
  result.png.resize(length);
  result.png.shrink_to_fit();
  return result;
}

LoggedImage encoded(const Pixels& grid) { return encoded(grid.bytes, grid.width, grid.height, grid.channels); }

}  // namespace

LoggedImage encode_png(std::span<const std::uint8_t> images, const ImageShape& shape) {
  return encoded(grid_of(images, shape));
}
LoggedImage encode_png(std::span<const float> images, const ImageShape& shape) { return encoded(grid_of(images, shape)); }
LoggedImage encode_rgb_png(std::span<const std::uint8_t> pixels, std::int64_t width, std::int64_t height) {
  return encoded(pixels, width, height, 3);
}

}  // namespace levin
