#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/images/image_transform.h"

namespace levin {

/// How image files are read.
struct LEVIN_API ImageReading {
  std::int64_t channels = 3;     ///< 1: grey, 3: color, 4: color and alpha, whatever the file has
  std::int64_t bits = 8;         ///< 8: uint8; 16: floats from 0 to 1 with the precision of 16 bits
  bool exif_orientation = true;  ///< turned as the camera was held
  /// Width times height of the largest image; one above it is an error, as a small file may hold a very large one.
  std::int64_t max_pixels = 178'956'970;
};

/// An image file: JPEG, PNG, WebP or BMP. It is decoded when it is read, as far as that needs.
class LEVIN_API ImageFile {
 public:
  /// Reads the file's bytes and its header. Throws IoError for what is no such image, or is damaged, with the reason;
  /// ConfigError where this levin cannot read images, with what to install.
  explicit ImageFile(const std::filesystem::path& file, const ImageReading& reading = {});
  /// `bytes` of a file; `name` stands for it in messages.
  ImageFile(std::string bytes, std::string name, const ImageReading& reading = {});

  /// "JPEG", "PNG", "WebP" or "BMP".
  const char* kind() const { return kind_; }
  images::Size size() const { return size_; }
  /// [channels, height, width], with the channels of a pixel beside one another in memory. Throws IoError.
  at::Tensor read() const;
  /// A part of it, resized. Throws IoError, and MisuseError for a part beyond the image.
  at::Tensor read(const ImageView& view) const;

 private:
  at::Tensor decode(std::int64_t top, std::int64_t left, images::Size area, int reduction) const;
  [[noreturn]] void fail(const std::string& reason) const;

  std::string bytes_;
  std::string name_;
  ImageReading reading_;
  const char* kind_ = "";
  images::Size stored_ = {};  ///< before the orientation
  images::Size size_ = {};
  int orientation_ = 1;
};

/// The image in a file: ImageFile(file, reading).read().
LEVIN_API at::Tensor read_image(const std::filesystem::path& file, const ImageReading& reading = {});

}  // namespace levin
