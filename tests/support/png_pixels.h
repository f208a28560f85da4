#pragma once

#include <png.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "levin/core/logged_item.h"

namespace levin::test {

/// The pixels of a PNG, row by row, each with its channels together.
inline std::vector<std::uint8_t> decoded(const LoggedImage& image) {
  png_image file{};
  file.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&file, image.png.data(), image.png.size()) != 0);
  CHECK(file.width == image.width);
  CHECK(file.height == image.height);
  CHECK(PNG_IMAGE_SAMPLE_CHANNELS(file.format) == image.channels);
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(file));
  REQUIRE(png_image_finish_read(&file, nullptr, pixels.data(), 0, nullptr) != 0);
  return pixels;
}

}  // namespace levin::test
