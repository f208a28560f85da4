// Image files of every kind: their pixels are those that Pillow reads (make_files.py), parts are those of the whole, and what
// is no image is an error.
#include "levin/images/image_file.h"

#include <ATen/ops/equal.h>
#include <torch/types.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "images/image_references.h"
#include "levin/core/base/error.h"
#include "support/file_text.h"

using Catch::Matchers::Contains;

namespace levin::test {
namespace {

const std::map<std::string, at::Tensor>& expected() {
  static const auto tensors = read_tensors(kImageFiles.parent_path() / "files.safetensors");
  return tensors;
}

double largest_difference(const at::Tensor& one, const at::Tensor& other) {
  return (one.to(torch::kDouble) - other.to(torch::kDouble)).abs().max().item<double>();
}

/// A lossy file's decoders may round in other ways; libjpeg makes grey of brightness itself, not of colors.
double tolerance(const std::string& name, const std::string& kind) {
  const bool is_jpeg = name.ends_with(".jpg");
  if (kind == "l" && (is_jpeg || name == "lossy.webp")) return 2;
  return name == "cmyk.jpg" ? 1 : 0;
}

}  // namespace

TEST_CASE("pixels of every kind of file are those that Pillow reads") {
  int compared = 0;
  for (const auto& [key, pixels] : expected()) {
    const std::size_t dot = key.rfind('.');
    const std::string name = key.substr(0, dot), kind = key.substr(dot + 1);
    INFO(key);
    if (kind == "16") {
      const at::Tensor read = read_image(kImageFiles / name, {.channels = pixels.size(0), .bits = 16});
      CHECK(read.scalar_type() == torch::kFloat);
      CHECK(largest_difference(read * 65535, pixels) < 0.01);
    } else {
      const std::int64_t channels = kind == "l" ? 1 : kind == "rgb" ? 3 : 4;
      const at::Tensor read = read_image(kImageFiles / name, {.channels = channels});
      REQUIRE(read.sizes() == pixels.sizes());
      CHECK(read.scalar_type() == torch::kByte);
      CHECK(largest_difference(read, pixels) <= tolerance(name, kind));
    }
    ++compared;
  }
  CHECK(compared > 90);
}

TEST_CASE("values of 16 bits become 8, and those of 8 become floats") {
  const at::Tensor wide = expected().at("grey_16.png.16");
  CHECK(largest_difference(read_image(kImageFiles / "grey_16.png", {.channels = 1}), wide.to(torch::kDouble) / 257) <= 0.5001);
  const at::Tensor floats = read_image(kImageFiles / "color_444.jpg", {.bits = 16});
  CHECK(largest_difference(floats * 255, read_image(kImageFiles / "color_444.jpg")) < 1e-4);
}

TEST_CASE("without the orientation of EXIF the pixels are as stored") {
  const ImageFile turned(kImageFiles / "turned_6.jpg"), stored(kImageFiles / "turned_6.jpg", {.exif_orientation = false});
  CHECK(turned.size() == images::Size{18, 13});
  CHECK(stored.size() == images::Size{13, 18});
  CHECK(at::equal(turned.read(), stored.read().transpose(1, 2).flip(2)));
}

TEST_CASE("a part of a file has the pixels of the whole") {
  const std::string name = GENERATE("large_420.jpg", "turned_2.jpg", "turned_3.jpg", "turned_5.jpg", "turned_6.jpg",
                                    "turned_7.jpg", "turned_8.jpg", "color.png", "lossy.webp", "color.bmp");
  const ImageFile file(kImageFiles / name);
  const at::Tensor whole = file.read();
  std::mt19937 random(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low));
  };
  for (int attempt = 0; attempt < 20; ++attempt) {
    ImageView view{.top = draw(0, file.size()[0]), .left = draw(0, file.size()[1])};
    view.area = {draw(1, file.size()[0] - view.top + 1), draw(1, file.size()[1] - view.left + 1)};
    view.size = view.area;
    INFO(name << ": " << view.area[0] << " x " << view.area[1] << " from " << view.top << ", " << view.left << " on");
    CHECK(at::equal(file.read(view), images::crop(whole, view.top, view.left, view.area)));
    view.size = {5, 4};
    CHECK(at::equal(file.read(view), images::resize(images::crop(whole, view.top, view.left, view.area), {5, 4})));
  }
}

TEST_CASE("a JPEG file that is decoded at a reduced size is close to the whole, resized") {
  const ImageFile file(kImageFiles / "large_420.jpg");
  for (const std::int64_t side : {50, 25, 12}) {
    ImageView view{.top = 8, .left = 16, .area = {104, 128}, .size = {side, side}, .at_reduced_size = true};
    const at::Tensor reduced = file.read(view);
    view.at_reduced_size = false;
    const at::Tensor exact = file.read(view);
    const double mean = (reduced.to(torch::kDouble) - exact.to(torch::kDouble)).abs().mean().item<double>();
    INFO(side << ": " << mean);
    CHECK(mean < 8);  // of colors that change within some pixels, with noise
    CHECK(!at::equal(reduced, exact));
  }
}

TEST_CASE("what is no whole image is an error that names the file and the reason") {
  const auto error_of_bytes = [](std::string bytes, const ImageReading& reading = {}) -> std::string {
    try {
      ImageFile(std::move(bytes), "photo", reading).read();
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of_bytes("") == "'photo' is empty");
  CHECK(error_of_bytes("GIF89a") == "'photo' is no JPEG, PNG, WebP or BMP file");
  CHECK_THAT(error_of_bytes(read_text(kImageFiles / "color_444.jpg"), {.max_pixels = 233}),
             Contains("has 18 x 13 pixels, and max_pixels is 233"));
  for (const std::string name : {"color_420.jpg", "progressive.jpg", "color.png", "color_16.png", "lossless.webp", "lossy.webp",
                                 "color.bmp", "palette.bmp"}) {
    const std::string bytes = read_text(kImageFiles / name);
    INFO(name);
    CHECK(error_of_bytes(bytes).empty());
    for (const double share : {0.1, 0.5, 0.9}) {
      CHECK_THAT(error_of_bytes(bytes.substr(0, static_cast<std::size_t>(share * static_cast<double>(bytes.size())))),
                 Contains("'photo' is a "));
    }
  }
  CHECK_THROWS_WITH(ImageFile(kImageFiles / "nothing.jpg"), Contains("nothing.jpg"));
  const ImageFile file(kImageFiles / "color.png");
  CHECK_THROWS_WITH(file.read({.top = 10, .area = {4, 4}, .size = {2, 2}}),
                    Contains("is of 18 x 13 pixels, and 4 x 4 from (0, 10) on"));
}

TEST_CASE("damaged files end in an error or in pixels, never otherwise") {
  std::mt19937 random(11);
  for (const auto& entry : std::filesystem::directory_iterator(kImageFiles)) {
    const std::string bytes = read_text(entry.path());
    for (int attempt = 0; attempt < 40; ++attempt) {
      std::string damaged = bytes;
      for (int place = 0; place < 3; ++place) damaged[random() % damaged.size()] = static_cast<char>(random());
      try {
        const at::Tensor read = ImageFile(damaged, "photo", {.max_pixels = 1 << 20}).read();
        CHECK(read.dim() == 3);
      } catch (const IoError&) {
      }
    }
  }
}

}  // namespace levin::test
