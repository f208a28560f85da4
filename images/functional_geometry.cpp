#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/images/functional.h"
#include "levin/images/functional_shared.h"

namespace levin::images {
namespace {

Size size_of(const at::Tensor& image) { return {image.size(-2), image.size(-1)}; }

/// A single image of a decoder has its channels side by side in memory, but nothing that says so in the stride of the batch's
/// dimension, by which LibTorch lays out the result: in another order, and with another copy.
at::Tensor with_batch_stride(const at::Tensor& batch) {
  if (batch.size(0) != 1 || !batch.is_contiguous(at::MemoryFormat::ChannelsLast)) return batch;
  return batch.as_strided(batch.sizes(), {batch.numel(), batch.stride(1), batch.stride(2), batch.stride(3)});
}

at::Tensor resize_batch(const at::Tensor& batch, Size size, Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return at::upsample_nearest2d(batch, size, std::nullopt, std::nullopt);
    case Interpolation::kBilinear:
      return at::_upsample_bilinear2d_aa(batch, size, /*align_corners=*/false, std::nullopt, std::nullopt);
    case Interpolation::kBicubic:
      return at::_upsample_bicubic2d_aa(batch, size, /*align_corners=*/false, std::nullopt, std::nullopt);
  }
  throw MisuseError("resize: the interpolation is none of nearest, bilinear and bicubic");
}

}  // namespace

at::Tensor resize(const at::Tensor& image, Size size, Interpolation interpolation) {
  detail::check_image("resize", image);
  detail::check_size("resize", size);
  if (size == size_of(image)) return image;
  std::vector<std::int64_t> shape = image.sizes().vec();
  std::copy(size.begin(), size.end(), shape.end() - 2);
  const at::Tensor batch = with_batch_stride(detail::as_batch(image));
  // Of uint8 LibTorch interpolates on the CPU only.
  if (image.scalar_type() == at::kByte && interpolation != Interpolation::kNearest && !image.is_cpu()) {
    return resize_batch(batch.to(at::kFloat), size, interpolation).clamp_(0, 255).round_().to(at::kByte).reshape(shape);
  }
  return resize_batch(batch, size, interpolation).reshape(shape);
}

Size size_with_shorter_side(Size size, std::int64_t shorter) {
  detail::check_size("size_with_shorter_side", size);
  detail::check_size("size_with_shorter_side", {shorter, shorter});
  const auto [least, most] = std::minmax(size[0], size[1]);
  const auto longer =
      static_cast<std::int64_t>(static_cast<double>(shorter) * static_cast<double>(most) / static_cast<double>(least));
  return size[1] <= size[0] ? Size{longer, shorter} : Size{shorter, longer};
}

at::Tensor crop(const at::Tensor& image, std::int64_t top, std::int64_t left, Size size) {
  detail::check_image("crop", image);
  detail::check_area("crop", image, top, left, size);
  return image.narrow(-2, top, size[0]).narrow(-1, left, size[1]);
}

at::Tensor center_crop(const at::Tensor& image, Size size) {
  detail::check_image("center_crop", image);
  detail::check_size("center_crop", size);
  const std::int64_t more_rows = std::max<std::int64_t>(size[0] - image.size(-2), 0);
  const std::int64_t more_columns = std::max<std::int64_t>(size[1] - image.size(-1), 0);
  at::Tensor padded = image;
  if (more_rows > 0 || more_columns > 0) {
    padded =
        at::constant_pad_nd(image, {more_columns / 2, (more_columns + 1) / 2, more_rows / 2, (more_rows + 1) / 2}, /*value=*/0);
  }
  // Of two pixels in the middle, the even one.
  const auto half = [](std::int64_t pixels) {
    return static_cast<std::int64_t>(std::nearbyint(0.5 * static_cast<double>(pixels)));
  };
  return crop(padded, half(padded.size(-2) - size[0]), half(padded.size(-1) - size[1]), size);
}

at::Tensor pad(const at::Tensor& image, std::array<std::int64_t, 4> padding, double fill) {
  detail::check_image("pad", image);
  detail::check_pixel("pad", "fill", image, fill);
  const auto [left, top, right, bottom] = padding;
  if (std::min({left, top, right, bottom}) < 0) {
    throw MisuseError(
        format("pad: the padding is {}, {}, {}, {} (left, top, right, bottom), and must be at least 0: crop() makes "
               "an image smaller",
               left, top, right, bottom));
  }
  return at::constant_pad_nd(image, {left, right, top, bottom}, fill);
}

at::Tensor horizontal_flip(const at::Tensor& image) {
  detail::check_image("horizontal_flip", image);
  return image.flip(-1);
}

at::Tensor vertical_flip(const at::Tensor& image) {
  detail::check_image("vertical_flip", image);
  return image.flip(-2);
}

namespace {

using Matrix = std::array<double, 6>;

double radians(double degrees) { return degrees * (3.14159265358979323846 / 180.0); }

/// The inverse of the motion: rows of x and y, from [x, y, 1] of the result to the pixel of the image that is seen there; both
/// from the centre of the image. The motion is T C R C^-1, with T the translation, C from the origin to `center`, and
///
///     R = rotation * scale * | 1         0 | * | 1  -tan(sx) |  =  scale * | a  b |    with determinant 1 without the scale.
///                            | -tan(sy)  1 |   | 0         1 |             | c  d |
Matrix source_matrix(const std::array<double, 2>& center, const Affine& move) {
  const double angle = radians(move.degrees), shear_x = radians(move.shear[0]), shear_y = radians(move.shear[1]);
  const double a = std::cos(angle - shear_y) / std::cos(shear_y);
  const double c = std::sin(angle - shear_y) / std::cos(shear_y);
  const double b = -(a * std::tan(shear_x) + std::sin(angle));
  const double d = std::cos(angle) - c * std::tan(shear_x);
  Matrix matrix = {d / move.scale, -b / move.scale, 0, -c / move.scale, a / move.scale, 0};
  const double x = center[0] + move.translate[0], y = center[1] + move.translate[1];
  matrix[2] = center[0] - matrix[0] * x - matrix[1] * y;
  matrix[5] = center[1] - matrix[3] * x - matrix[4] * y;
  return matrix;
}

/// Where each pixel comes from, as grid_sampler() takes it: [1, height, width, 2] of x and y, from -1 to 1 over the image.
at::Tensor source_grid(const Matrix& matrix, Size size, const at::TensorOptions& options) {
  const auto [height, width] = size;
  const auto from_center = [&](std::int64_t pixels) {
    const double last = 0.5 * static_cast<double>(pixels - 1);
    return at::linspace(-last, last, pixels, options);
  };
  const at::Tensor pixels = at::ones({height, width, 3}, options);
  pixels.select(-1, 0).copy_(from_center(width));
  pixels.select(-1, 1).copy_(from_center(height).unsqueeze(-1));
  const at::Tensor scaled =
      at::tensor(at::ArrayRef<double>(matrix), options)
          .view({1, 2, 3})
          .transpose(1, 2)
          .div_(at::tensor({0.5 * static_cast<double>(width), 0.5 * static_cast<double>(height)}, options));
  return at::bmm(pixels.view({1, height * width, 3}), scaled).view({1, height, width, 2});
}

at::Tensor sample(const at::Tensor& image, const Matrix& matrix, Interpolation interpolation, double fill) {
  constexpr std::int64_t kZerosOutside = 0;
  const bool nearest = interpolation == Interpolation::kNearest;
  const at::Tensor batch = detail::as_batch(image).to(detail::float_type(image));
  const at::Tensor grid = source_grid(matrix, size_of(image), batch.options()).expand({batch.size(0), -1, -1, -1});
  const auto sampled = [&](const at::Tensor& pixels) {
    return at::grid_sampler(pixels, grid, nearest ? 1 : 0, kZerosOutside, /*align_corners=*/false);
  };
  at::Tensor result;
  if (nearest && fill == 0) {
    result = sampled(batch);
  } else {
    // Another channel says how much of a pixel comes from the image.
    const at::Tensor inside = at::ones({batch.size(0), 1, batch.size(2), batch.size(3)}, batch.options());
    const at::Tensor all = sampled(at::cat({batch, inside}, 1));
    const at::Tensor pixels = all.narrow(1, 0, batch.size(1)), share = all.narrow(1, batch.size(1), 1);
    result = nearest ? at::where(share.lt(0.5), fill, pixels) : pixels.sub_(fill).mul_(share).add_(fill);
  }
  if (image.scalar_type() == at::kByte) result = result.round_().to(at::kByte);
  return result.reshape(image.sizes());
}

void check_sampling(const char* function, const at::Tensor& image, Interpolation interpolation, double fill) {
  detail::check_image(function, image);
  detail::check_pixel(function, "fill", image, fill);
  if (interpolation == Interpolation::kBicubic) {
    throw MisuseError(format("{}: the interpolation is bicubic, which only resize() has: set nearest or bilinear", function));
  }
}

void check_finite(const char* function, std::initializer_list<double> numbers) {
  if (std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); })) return;
  throw MisuseError(format("{}: a number is not finite", function));
}

}  // namespace

at::Tensor detail::affine_around(const std::array<double, 2>& center, const at::Tensor& image, const Affine& move,
                                 Interpolation interpolation, double fill) {
  check_sampling("affine", image, interpolation, fill);
  check_finite("affine", {move.degrees, move.translate[0], move.translate[1], move.scale, move.shear[0], move.shear[1]});
  if (move.scale <= 0) throw MisuseError(format("affine: the scale is {}, and must be above 0", move.scale));
  return sample(image, source_matrix(center, move), interpolation, fill);
}

at::Tensor affine(const at::Tensor& image, const Affine& move, Interpolation interpolation, double fill) {
  return detail::affine_around({0, 0}, image, move, interpolation, fill);
}

at::Tensor rotate(const at::Tensor& image, double degrees, Interpolation interpolation, double fill) {
  check_sampling("rotate", image, interpolation, fill);
  check_finite("rotate", {degrees});
  const double remainder = std::fmod(degrees, 360.0);
  const double angle = remainder < 0 ? remainder + 360.0 : remainder;
  const bool square = image.size(-2) == image.size(-1);
  if (angle == 0) return image.clone();
  if (angle == 180 || (square && (angle == 90 || angle == 270))) {
    return at::rot90(image, static_cast<std::int64_t>(angle / 90), {-2, -1});
  }
  // The other direction: y points down.
  return sample(image, source_matrix({0, 0}, {.degrees = -angle}), interpolation, fill);
}

}  // namespace levin::images
