#include "levin/core/media/png_image.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "support/png_pixels.h"

using namespace levin;
using levin::test::decoded;
using Bytes = std::vector<std::uint8_t>;

TEST_CASE("bytes are in the PNG as they are, channels of a pixel together") {
  const Bytes grey = {0, 1, 2, 253, 254, 255};
  CHECK(decoded(encode_png(grey, {.height = 2, .width = 3})) == grey);
  const Bytes planes = {1, 2, 3, 4, 5, 6};
  CHECK(decoded(encode_png(planes, {.channels = 3, .height = 1, .width = 2})) == Bytes{1, 3, 5, 2, 4, 6});
  const Bytes with_alpha = {10, 20, 30, 128};
  CHECK(decoded(encode_png(with_alpha, {.channels = 4, .height = 1, .width = 1})) == with_alpha);
}

TEST_CASE("floats from 0 to 1 become the nearest byte, and what is beyond is cut off") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0, 1, 0.5F, 1 / 255.0F, 0.4F / 255, -3, 7, infinity, -infinity, std::nanf("")};
  CHECK(decoded(encode_png(values, {.height = 1, .width = 10})) == Bytes{0, 255, 128, 1, 0, 0, 255, 255, 0, 0});
}

TEST_CASE("several images are a grid, eight in a row, with gaps of two pixels") {
  Bytes images(10);
  for (std::size_t image = 0; image < images.size(); ++image) images[image] = static_cast<std::uint8_t>(image + 1);
  const LoggedImage grid = encode_png(images, {.number = 10, .height = 1, .width = 1});
  REQUIRE(grid.width == 22);
  REQUIRE(grid.height == 4);
  Bytes expected(22 * 4);
  for (std::size_t image = 0; image < 8; ++image) expected[3 * image] = images[image];
  expected[3 * 22] = 9;
  expected[3 * 22 + 3] = 10;
  CHECK(decoded(grid) == expected);
}

TEST_CASE("what libpng cannot write is an error with its size") {
  const Bytes row(2'000'000);
  CHECK_THROWS_WITH(encode_png(row, {.height = 1, .width = 2'000'000}), Catch::StartsWith("an image of 2000000 x 1 pixels"));
}
