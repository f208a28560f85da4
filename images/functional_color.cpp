#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/images/functional.h"
#include "levin/images/functional_shared.h"

namespace levin::images {
namespace {

/// A computed image in the type of the first: floats are cut off to be uint8.
at::Tensor in_type_of(const at::Tensor& image, const at::Tensor& computed) { return computed.to(image.scalar_type()); }

/// image * factor + other * (1 - factor)
at::Tensor blend(const at::Tensor& image, const at::Tensor& other, double factor) {
  return in_type_of(image, image.mul(factor).add_(other, 1 - factor).clamp_(0, detail::white(image)));
}

/// How bright each pixel of an image of three channels is, in floats: [..., 1, height, width].
at::Tensor brightness_of(const at::Tensor& image) {
  return image.select(-3, 0).mul(0.2989).add_(image.select(-3, 1), 0.587).add_(image.select(-3, 2), 0.114).unsqueeze(-3);
}

/// The same, of uint8 in whole numbers.
at::Tensor whole_brightness_of(const at::Tensor& image) {
  const at::Tensor brightness = brightness_of(image);
  return image.scalar_type() == at::kByte ? brightness.floor() : brightness;
}

/// Of floats from 0 to 1: each of 256 values has an equal part of them.
at::Tensor to_bytes(const at::Tensor& image) {
  return image.scalar_type() == at::kByte ? image : image.mul(256 - 1e-3).to(at::kByte);
}

/// Floats as to_float(), or uint8 as to_bytes(), in the type of the first image.
at::Tensor rescaled_to_type_of(const at::Tensor& image, const at::Tensor& computed) {
  if (image.scalar_type() == at::kByte) return to_bytes(computed);
  return to_float(computed).to(image.scalar_type());
}

}  // namespace

at::Tensor adjust_brightness(const at::Tensor& image, double factor) {
  detail::check_color_image("adjust_brightness", image);
  detail::check_factor("adjust_brightness", factor);
  return in_type_of(image, image.mul(factor).clamp_(0, detail::white(image)));
}

at::Tensor adjust_contrast(const at::Tensor& image, double factor) {
  detail::check_color_image("adjust_contrast", image);
  detail::check_factor("adjust_contrast", factor);
  const at::Tensor brightness = image.size(-3) == 3 ? whole_brightness_of(image) : image.to(detail::float_type(image));
  return blend(image, brightness.mean({-3, -2, -1}, /*keepdim=*/true), factor);
}

at::Tensor adjust_saturation(const at::Tensor& image, double factor) {
  detail::check_color_image("adjust_saturation", image);
  detail::check_factor("adjust_saturation", factor);
  return image.size(-3) == 1 ? image : blend(image, whole_brightness_of(image), factor);
}

at::Tensor grayscale(const at::Tensor& image, std::int64_t channels) {
  detail::check_color_image("grayscale", image);
  if (channels != 1 && channels != 3) {
    throw MisuseError(format("grayscale: {} channels are wanted, and must be 1 or 3", channels));
  }
  const at::Tensor gray = image.size(-3) == 1 ? image.clone() : in_type_of(image, brightness_of(image));
  std::vector<std::int64_t> shape = image.sizes().vec();
  shape.end()[-3] = channels;
  return gray.expand(shape);
}

namespace {

/// Turns the hue of one pixel by `shift`: through hue (0 to 1), saturation and value. In floats, step by step as torchvision,
/// so that they round alike.
void turn_hue(float& red, float& green, float& blue, float shift) {
  const float value = std::max({red, green, blue}), least = std::min({red, green, blue}), range = value - least;
  const bool gray = range == 0;
  const float saturation = range / (gray ? 1 : value), divisor = gray ? 1 : range;
  const float r = (value - red) / divisor, g = (value - green) / divisor, b = (value - blue) / divisor;
  const float sixths = value == red ? b - g : value == green ? r + 2 - b : g + 4 - r;
  const float unturned = sixths * static_cast<float>(1.0 / 6.0) + 1;
  const float turned = unturned - std::trunc(unturned) + shift;
  const float hue = (turned - std::floor(turned)) * 6;

  const float sector = std::floor(hue), part = (hue - sector) * saturation, rest = 1 - saturation;
  const auto bright = [&](float share) { return std::clamp(share * value, 0.0F, 1.0F); };
  const float none = bright(rest), falling = bright(1 - part), rising = bright(part + rest);
  const std::array<std::array<float, 3>, 6> colors = {{{value, rising, none},
                                                       {falling, value, none},
                                                       {none, value, rising},
                                                       {none, falling, value},
                                                       {rising, none, value},
                                                       {value, none, falling}}};
  const std::array<float, 3>& color = colors[sector >= 1 && sector < 6 ? static_cast<std::size_t>(sector) : 0];
  red = color[0], green = color[1], blue = color[2];
}

}  // namespace

at::Tensor adjust_hue(const at::Tensor& image, double shift) {
  detail::check_color_image("adjust_hue", image);
  detail::check_range("adjust_hue", "the shift", shift, -0.5, 0.5);
  if (image.size(-3) == 1) return image;
  const at::Tensor result = to_float(image).to(at::kFloat).cpu().clone(at::MemoryFormat::Contiguous);
  const std::int64_t plane = image.size(-2) * image.size(-1);
  float* pixels = result.mutable_data_ptr<float>();
  for (const float* const end = pixels + result.numel(); pixels != end; pixels += 3 * plane) {
    for (std::int64_t at = 0; at < plane; ++at) {
      turn_hue(pixels[at], pixels[at + plane], pixels[at + 2 * plane], static_cast<float>(shift));
    }
  }
  return rescaled_to_type_of(image, result).to(image.device());
}

at::Tensor invert(const at::Tensor& image) {
  detail::check_image("invert", image);
  return image.scalar_type() == at::kByte ? image.bitwise_not() : at::rsub(image, 1);
}

at::Tensor posterize(const at::Tensor& image, int bits) {
  detail::check_image("posterize", image);
  detail::check_range("posterize", "bits", bits, 0, 8);
  const int levels = 1 << bits;
  if (image.scalar_type() == at::kByte) return image.bitwise_and(256 - 256 / levels);
  return image.mul(levels).floor_().clamp_(0, levels - 1).mul_(1.0 / levels);
}

at::Tensor solarize(const at::Tensor& image, double threshold) {
  detail::check_image("solarize", image);
  detail::check_range("solarize", "the threshold", threshold, 0.0, detail::white(image));
  return at::where(image.ge(threshold), invert(image), image);
}

at::Tensor autocontrast(const at::Tensor& image) {
  detail::check_color_image("autocontrast", image);
  const double white = detail::white(image);
  const at::Tensor pixels = image.to(detail::float_type(image));
  at::Tensor least = pixels.amin({-2, -1}, /*keepdim=*/true);
  at::Tensor scale = pixels.amax({-2, -1}, /*keepdim=*/true);
  const at::Tensor flat = scale.eq(least);
  scale = scale.sub_(least).mul_(1 / white).masked_fill_(flat, 1);
  least = least.masked_fill_(flat, 0);
  return in_type_of(image, pixels.sub(least).div_(scale).clamp_(0, white));
}

namespace {

/// Gives one channel a flat histogram, as Pillow does: the brightest of its values does not count.
void equalize_channel(const std::uint8_t* from, std::uint8_t* to, std::int64_t pixels) {
  std::array<std::int64_t, 256> histogram = {};
  for (std::int64_t at = 0; at < pixels; ++at) ++histogram[from[at]];
  const auto brightest = std::find_if(histogram.rbegin(), histogram.rend(), [](std::int64_t count) { return count > 0; });
  const std::int64_t step = (pixels - *brightest) / 255;
  if (step == 0) {
    std::copy_n(from, pixels, to);
    return;
  }
  std::array<std::uint8_t, 256> values = {};
  std::int64_t darker = step / 2;
  for (std::size_t value = 0; value < values.size(); ++value) {
    values[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(darker / step, 255));
    darker += histogram[value];
  }
  std::transform(from, from + pixels, to, [&](std::uint8_t value) { return values[value]; });
}

}  // namespace

at::Tensor equalize(const at::Tensor& image) {
  detail::check_image("equalize", image);
  const at::Tensor bytes = to_bytes(image).cpu().contiguous();
  const at::Tensor result = at::empty_like(bytes);
  const std::int64_t plane = image.size(-2) * image.size(-1);
  for (std::int64_t first = 0; first < bytes.numel(); first += plane) {
    equalize_channel(bytes.const_data_ptr<std::uint8_t>() + first, result.mutable_data_ptr<std::uint8_t>() + first, plane);
  }
  return rescaled_to_type_of(image, result).to(image.device());
}

at::Tensor to_float(const at::Tensor& image) {
  detail::check_image("to_float", image);
  return image.scalar_type() == at::kByte ? image.to(at::kFloat).mul_(1.0 / 255) : image;
}

at::Tensor normalize(const at::Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation) {
  detail::check_image("normalize", image);
  if (image.scalar_type() == at::kByte)
    throw MisuseError("normalize: the image is uint8, and must be floats: to_float() first");
  const auto channels = static_cast<std::size_t>(image.size(-3));
  if (mean.size() != channels || deviation.size() != channels) {
    throw MisuseError(format("normalize: an image of {} channels needs as many means and deviations, and there are {} and {}",
                             channels, mean.size(), deviation.size()));
  }
  if (std::find(deviation.begin(), deviation.end(), 0.0) != deviation.end()) {
    throw MisuseError("normalize: a deviation is 0, by which nothing can be divided");
  }
  const auto of_channels = [&](const std::vector<double>& numbers) {
    return at::tensor(numbers, image.options()).view({-1, 1, 1});
  };
  return image.sub(of_channels(mean)).div_(of_channels(deviation));
}

}  // namespace levin::images
