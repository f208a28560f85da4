#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace levin {

/// What the header of an image file says. Sizes are those of the stored image, before its orientation.
struct ImageInfo {
  const char* format = "";  ///< "JPEG", "PNG", "WebP", "BMP"
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 3;     ///< 1: grey, 2: grey and alpha, 3: color, 4: color and alpha
  int bits = 8;         ///< of a value: 8, or 16
  int orientation = 1;  ///< as EXIF numbers them, 1 to 8
};

/// What is wanted of it.
struct ImageRequest {
  int channels = 3;   ///< 1, 3 or 4, which are made of those in the file; alpha that is not wanted is left out
  int bits = 8;       ///< 8, or 16
  int reduction = 1;  ///< JPEG: the image at 1/1, 1/2, 1/4 or 1/8 of its width and height, rounded up
  /// The part of the reduced image.
  std::uint32_t left = 0, top = 0, width = 0, height = 0;
};

/// What reads image files: liblevin_images.so, with libjpeg-turbo, libpng and libwebp, which is loaded when an image is first
/// read. Its functions throw std::runtime_error with what is wrong with a file. Threading: any.
struct ImageCodecs {
  ImageInfo (*info)(std::span<const std::byte> file);
  /// Writes rows of pixels, the channels of one beside one another, values of 16 bits in the machine's order of bytes.
  void (*decode)(std::span<const std::byte> file, const ImageRequest& request, std::byte* pixels);
};

}  // namespace levin

extern "C" __attribute__((visibility("default"))) const levin::ImageCodecs* levin_image_codecs();
