#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "levin/core/base/fwd.h"
#include "levin/core/batch.h"
#include "levin/core/config/registry.h"
#include "levin/data/random.h"
#include "levin/images/functional.h"

namespace levin {

/// A part of an image, and the size that it is brought to.
struct LEVIN_API ImageView {
  std::int64_t top = 0;
  std::int64_t left = 0;
  images::Size area = {};  ///< height and width of the part
  images::Size size = {};  ///< height and width that it gets
  Interpolation interpolation = Interpolation::kBilinear;
  /// A JPEG file may be decoded at a half, a quarter or an eighth of its size where the part has enough pixels then: several
  /// times faster, and close to the other result but not equal to it.
  bool at_reduced_size = false;
};

/// Changes one image of a training or evaluation sample, [channels, height, width] of uint8, or of floats from 0 to 1.
///
///     class Negative : public levin::ImageTransform {
///       at::Tensor apply(const at::Tensor& image, levin::Random&) const override { return levin::images::invert(image); }
///     };
///     LEVIN_REGISTER_IMAGE_TRANSFORM(Negative, "White becomes black");
///
/// Threading: worker threads call it at the same time. Random numbers come from `random`, which depends on the seed, the epoch
/// and the sample's index alone.
class LEVIN_API ImageTransform {
 public:
  virtual ~ImageTransform();
  virtual at::Tensor apply(const at::Tensor& image, Random& random) const = 0;
};

/// A transform that takes a part of the image and resizes it. As the first of a list it makes a file's reader decode that part
/// alone.
class LEVIN_API ImageViewTransform : public ImageTransform {
 public:
  /// `size`: the image's.
  virtual ImageView view(images::Size size, Random& random) const = 0;
  at::Tensor apply(const at::Tensor& image, Random& random) const final;
};

/// Changes a batch of training images: mixes its samples, for instance. `batch` has "features" [N, channels, height, width] of
/// floats, and "label": class numbers [N], or [N, classes] of probabilities once a transform has made them soft. Threading and
/// random numbers: as for ImageTransform, with the index of the batch's first sample.
class LEVIN_API BatchTransform {
 public:
  virtual ~BatchTransform();
  virtual Batch apply(Batch batch, std::int64_t classes, Random& random) const = 0;
};

/// A number from `low` to below `high`.
LEVIN_API double uniform(Random& random, double low, double high);
/// A whole number from `low` to below `high`.
LEVIN_API std::int64_t uniform_int(Random& random, std::int64_t low, std::int64_t high);

}  // namespace levin
