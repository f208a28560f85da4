#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/images/functional.h"

// What the functions on images share.

namespace levin::images::detail {

inline std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// Throws MisuseError unless the tensor is [..., channels, height, width] of uint8, float32 or float64, and has pixels.
inline void check_image(const char* function, const at::Tensor& image) {
  if (!image.defined()) throw MisuseError(format("{}: the image is an undefined tensor", function));
  const at::ScalarType type = image.scalar_type();
  if (type != at::kByte && type != at::kFloat && type != at::kDouble) {
    throw MisuseError(format("{}: an image is uint8, float32 or float64, and this one is {}: convert it with to()", function,
                             c10::toString(type)));
  }
  if (image.dim() < 3) {
    throw MisuseError(format("{}: an image is [..., channels, height, width], and this one is {}", function, shape_of(image)));
  }
  if (image.numel() == 0) throw MisuseError(format("{}: the image {} has no pixels", function, shape_of(image)));
}

/// Throws as check_image(), and for other than one or three channels.
inline void check_color_image(const char* function, const at::Tensor& image) {
  check_image(function, image);
  if (image.size(-3) == 1 || image.size(-3) == 3) return;
  throw MisuseError(
      format("{}: an image of 1 or 3 channels is needed, and this one, {}, has {}", function, shape_of(image), image.size(-3)));
}

/// Throws MisuseError for a number that is not from `least` to `most`.
template <class Number>
void check_range(const char* function, const char* name, Number number, Number least, Number most) {
  if (number >= least && number <= most) return;
  throw MisuseError(format("{}: {} is {}, and must be from {} to {}", function, name, number, least, most));
}

/// Throws MisuseError for a number that is negative or not finite.
inline void check_factor(const char* function, double factor) {
  if (factor >= 0 && factor <= std::numeric_limits<double>::max()) return;
  throw MisuseError(format("{}: the factor is {}, and must be a number of at least 0", function, factor));
}

/// Throws MisuseError unless height and width are positive.
inline void check_size(const char* function, Size size) {
  if (size[0] > 0 && size[1] > 0) return;
  throw MisuseError(format("{}: the size is {} x {}, and both must be at least 1", function, size[0], size[1]));
}

/// Throws MisuseError unless the area is inside the image.
inline void check_area(const char* function, const at::Tensor& image, std::int64_t top, std::int64_t left, Size size) {
  check_size(function, size);
  const std::int64_t height = image.size(-2), width = image.size(-1);
  if (top >= 0 && left >= 0 && size[0] <= height && size[1] <= width && top <= height - size[0] && left <= width - size[1])
    return;
  throw MisuseError(format("{}: the area of {} x {} at row {} and column {} is not inside the image of {} x {}", function,
                           size[0], size[1], top, left, height, width));
}

/// The value of a white pixel.
inline double white(const at::Tensor& image) { return image.scalar_type() == at::kByte ? 255 : 1; }

/// Throws MisuseError for a value that a uint8 image cannot hold. Floats may have been normalized, and take any.
inline void check_pixel(const char* function, const char* name, const at::Tensor& image, double value) {
  if (image.scalar_type() == at::kByte) check_range(function, name, value, 0.0, 255.0);
}

/// [images, channels, height, width].
inline at::Tensor as_batch(const at::Tensor& image) {
  return image.reshape({-1, image.size(-3), image.size(-2), image.size(-1)});
}

/// The type that an image is computed in.
inline at::ScalarType float_type(const at::Tensor& image) {
  return image.scalar_type() == at::kByte ? at::kFloat : image.scalar_type();
}

/// affine() around another point: x and y from the centre of the image, in pixels. Throws as affine() does.
at::Tensor affine_around(const std::array<double, 2>& center, const at::Tensor& image, const Affine& move,
                         Interpolation interpolation, double fill);

}  // namespace levin::images::detail
