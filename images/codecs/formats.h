#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "levin/images/codecs/image_codecs.h"

namespace levin::codecs {

/// A format of image files.
struct Format {
  bool (*is_one)(std::span<const std::byte> file);
  ImageInfo (*info)(std::span<const std::byte> file);
  void (*decode)(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels);
};

extern const Format kJpeg;
extern const Format kPng;
extern const Format kWebp;
extern const Format kBmp;

/// Whether a file begins with these bytes, from `offset` on.
bool has_bytes(std::span<const std::byte> file, std::size_t offset, std::string_view bytes);

/// The orientation in EXIF data, which begins with its TIFF header; 1 where there is none, or it is damaged.
int exif_orientation(std::span<const std::byte> exif);

/// A whole image with values of 8 bits, from which the wanted part is taken in the wanted channels and bits.
struct Pixels {
  std::uint32_t width = 0, height = 0;
  int channels = 3;
  std::vector<std::byte> values;
};
void take(const Pixels& image, const ImageRequest& request, std::byte* pixels);

/// One row: `channels` of its pixels, 1 to 4, become those that are wanted. Grey of colors is 0.299 R + 0.587 G + 0.114 B.
template <class Value>
void convert_row(const Value* row, int channels, std::uint32_t width, int wanted, Value* to);

}  // namespace levin::codecs
