#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/reflection_pad2d.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/images/functional.h"
#include "levin/images/functional_shared.h"

namespace levin::images {
namespace {

/// Each channel by itself, without the pixels at the borders that the kernel is too wide for.
at::Tensor filter(const at::Tensor& batch, const at::Tensor& kernel) {
  constexpr Size kEach = {1, 1}, kNoPadding = {0, 0};
  const std::int64_t channels = batch.size(1);
  return at::conv2d(batch, kernel.expand({channels, 1, -1, -1}), /*bias=*/std::nullopt, kEach, at::IntArrayRef(kNoPadding),
                    /*dilation=*/kEach, channels);
}

/// A bell in one dimension, whose sum is 1.
at::Tensor bell(std::int64_t pixels, double sigma, const at::TensorOptions& options) {
  const double last = static_cast<double>(pixels - 1) / (2 * std::sqrt(2.0));
  return at::linspace(-last, last, pixels, options).div_(sigma).pow_(2).neg_().softmax(0);
}

}  // namespace

at::Tensor gaussian_blur(const at::Tensor& image, Size kernel, std::array<double, 2> sigma) {
  detail::check_image("gaussian_blur", image);
  for (std::size_t side = 0; side < kernel.size(); ++side) {
    const char* const name = side == 0 ? "height" : "width";
    const std::int64_t most = 2 * image.size(side == 0 ? -2 : -1) - 1;  // each pixel has its mirror image at most once
    if (kernel[side] % 2 == 0 || kernel[side] < 1 || kernel[side] > most) {
      throw MisuseError(format("gaussian_blur: the kernel's {} is {}, and must be odd and from 1 to {} for this image", name,
                               kernel[side], most));
    }
    if (!(sigma[side] > 0)) {
      throw MisuseError(format("gaussian_blur: sigma for the {} is {}, and must be above 0", name, sigma[side]));
    }
  }
  const at::Tensor batch = detail::as_batch(image).to(detail::float_type(image));
  const at::Tensor rows = bell(kernel[0], sigma[0], batch.options()), columns = bell(kernel[1], sigma[1], batch.options());
  const std::int64_t above = kernel[0] / 2, beside = kernel[1] / 2;
  const at::Tensor blurred =
      filter(at::reflection_pad2d(batch, {beside, beside, above, above}), rows.unsqueeze(-1).mul(columns));
  return (image.scalar_type() == at::kByte ? blurred.round().to(at::kByte) : blurred).reshape(image.sizes());
}

at::Tensor adjust_sharpness(const at::Tensor& image, double factor) {
  detail::check_color_image("adjust_sharpness", image);
  detail::check_factor("adjust_sharpness", factor);
  const std::int64_t height = image.size(-2), width = image.size(-1);
  if (height <= 2 || width <= 2) return image;
  const at::Tensor batch = detail::as_batch(image).to(detail::float_type(image), /*non_blocking=*/false, /*copy=*/true);
  const at::Tensor kernel = at::full({3, 3}, 1.0 / 13, batch.options());
  kernel.select(0, 1).select(0, 1).fill_(5.0 / 13);
  at::Tensor blurred = filter(batch, kernel);
  if (image.scalar_type() == at::kByte) blurred = blurred.round_();
  const at::Tensor inner = batch.narrow(-2, 1, height - 2).narrow(-1, 1, width - 2);
  inner.add_(blurred.sub_(inner), 1 - factor);
  return batch.clamp_(0, detail::white(image)).to(image.scalar_type()).reshape(image.sizes());
}

at::Tensor erase(const at::Tensor& image, std::int64_t top, std::int64_t left, Size size, double value) {
  detail::check_image("erase", image);
  detail::check_area("erase", image, top, left, size);
  detail::check_pixel("erase", "value", image, value);
  at::Tensor erased = image.clone();
  erased.narrow(-2, top, size[0]).narrow(-1, left, size[1]).fill_(value);
  return erased;
}

}  // namespace levin::images
