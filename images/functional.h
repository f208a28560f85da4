#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"

namespace levin {

/// How pixels between pixels are computed.
enum class Interpolation : std::uint8_t { kNearest, kBilinear, kBicubic };
template <>
inline constexpr std::array kChoices<Interpolation> = {Choice{Interpolation::kNearest, "nearest"},
                                                       Choice{Interpolation::kBilinear, "bilinear"},
                                                       Choice{Interpolation::kBicubic, "bicubic"}};

}  // namespace levin

/// Functions on images, as those of torchvision.transforms.v2.functional on tensors, with their values. An image is
/// [..., channels, height, width] of uint8, or of floats from 0 to 1; results have its type, and clamp where torchvision's do.
/// They throw MisuseError for tensors that are no images, and for sizes and numbers out of range.
namespace levin::images {

/// Height and width.
using Size = std::array<std::int64_t, 2>;

/// Both for bilinear and bicubic are antialiased when an image gets smaller.
LEVIN_API at::Tensor resize(const at::Tensor& image, Size size, Interpolation interpolation = Interpolation::kBilinear);
/// The size of an image whose shorter side becomes `shorter`, in its proportions.
LEVIN_API Size size_with_shorter_side(Size size, std::int64_t shorter);
/// Without padding: the area is inside the image.
LEVIN_API at::Tensor crop(const at::Tensor& image, std::int64_t top, std::int64_t left, Size size);
/// An image that is smaller is padded with zeros first, on all sides.
LEVIN_API at::Tensor center_crop(const at::Tensor& image, Size size);
/// Adds pixels of `fill` (in the image's unit) on each side: left, top, right, bottom.
LEVIN_API at::Tensor pad(const at::Tensor& image, std::array<std::int64_t, 4> padding, double fill = 0);
LEVIN_API at::Tensor horizontal_flip(const at::Tensor& image);
LEVIN_API at::Tensor vertical_flip(const at::Tensor& image);

/// Rotates around the centre by `degrees`, counterclockwise, moves by `translate` (pixels to the right and down), scales, and
/// shears by degrees in x and y. What comes from outside is `fill`.
struct LEVIN_API Affine {
  double degrees = 0;
  std::array<double, 2> translate = {0, 0};
  double scale = 1;
  std::array<double, 2> shear = {0, 0};
};
LEVIN_API at::Tensor affine(const at::Tensor& image, const Affine& move, Interpolation interpolation = Interpolation::kNearest,
                            double fill = 0);
/// Counterclockwise, within the image's size.
LEVIN_API at::Tensor rotate(const at::Tensor& image, double degrees, Interpolation interpolation = Interpolation::kNearest,
                            double fill = 0);

/// 0 gives black, grey or a mean, 1 the image, 2 twice of it. Of one or three channels.
LEVIN_API at::Tensor adjust_brightness(const at::Tensor& image, double factor);
LEVIN_API at::Tensor adjust_contrast(const at::Tensor& image, double factor);
LEVIN_API at::Tensor adjust_saturation(const at::Tensor& image, double factor);
/// `shift` is from -0.5 to 0.5 of the circle of hues.
LEVIN_API at::Tensor adjust_hue(const at::Tensor& image, double shift);
LEVIN_API at::Tensor adjust_sharpness(const at::Tensor& image, double factor);
/// Of `channels`, 1 or 3, which are equal.
LEVIN_API at::Tensor grayscale(const at::Tensor& image, std::int64_t channels = 1);
LEVIN_API at::Tensor invert(const at::Tensor& image);
/// Keeps the upper bits of each uint8 value; of floats as many levels.
LEVIN_API at::Tensor posterize(const at::Tensor& image, int bits);
/// Inverts what is at or above `threshold`, in the image's unit.
LEVIN_API at::Tensor solarize(const at::Tensor& image, double threshold);
LEVIN_API at::Tensor autocontrast(const at::Tensor& image);
/// Makes the histogram of each channel flat.
LEVIN_API at::Tensor equalize(const at::Tensor& image);

/// `kernel` is height and width in pixels, both odd. Pixels are mirrored at the borders.
LEVIN_API at::Tensor gaussian_blur(const at::Tensor& image, Size kernel, std::array<double, 2> sigma);
/// Gives an area one value.
LEVIN_API at::Tensor erase(const at::Tensor& image, std::int64_t top, std::int64_t left, Size size, double value = 0);

/// From 0 to 1: uint8 divided by 255. Floats stay as they are.
LEVIN_API at::Tensor to_float(const at::Tensor& image);
/// Of floats: each channel has its mean subtracted and is divided by its deviation.
LEVIN_API at::Tensor normalize(const at::Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation);

}  // namespace levin::images
