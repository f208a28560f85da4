#include "levin/images/image_transform.h"

#include <algorithm>
#include <cmath>

namespace levin {

ImageTransform::~ImageTransform() = default;
BatchTransform::~BatchTransform() = default;

at::Tensor ImageViewTransform::apply(const at::Tensor& image, Random& random) const {
  const ImageView part = view({image.size(-2), image.size(-1)}, random);
  return images::resize(images::crop(image, part.top, part.left, part.area), part.size, part.interpolation);
}

double uniform(Random& random, double low, double high) {
  const double from_0_to_1 = std::ldexp(static_cast<double>(random() >> 11), -53);
  return low + (high - low) * from_0_to_1;
}

std::int64_t uniform_int(Random& random, std::int64_t low, std::int64_t high) {
  const auto drawn =
      static_cast<std::int64_t>(std::floor(uniform(random, static_cast<double>(low), static_cast<double>(high))));
  return std::clamp(drawn, low, high - 1);
}

}  // namespace levin
