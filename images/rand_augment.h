#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/images/functional.h"
#include "levin/images/image_transform.h"

namespace levin::images {

/// Applies operations drawn at random, all of one magnitude: RandAugment (Cubuk et al., 2019), with the operations and
/// magnitudes of torchvision's. For images of one or three channels.
class LEVIN_API RandAugment final : public ImageTransform {
 public:
  struct Options {
    int num_ops = 2;
    int magnitude = 9;
    int num_magnitude_bins = 31;
    Interpolation interpolation = Interpolation::kNearest;
    double fill = 0;  ///< in the image's unit

    static void declare(OptionList<Options>& options);
  };

  RandAugment();
  /// Throws ConfigError as checked() does.
  explicit RandAugment(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// The names of RandAugment's operations: "Identity", "ShearX", …
LEVIN_API std::vector<std::string> augmentations();
/// The magnitude that bin `bin` of `bins` means for an operation on an image of this size; 0 for an operation without one.
/// Throws MisuseError for an unknown name, and for a bin that is none of at least two.
LEVIN_API double magnitude_of(std::string_view operation, int bin, int bins, Size size);
/// Applies one operation, with a magnitude of either sign where magnitudes have one. Throws MisuseError for an unknown name,
/// and as the functions of images/functional.h.
LEVIN_API at::Tensor augment(const at::Tensor& image, std::string_view operation, double magnitude,
                             Interpolation interpolation = Interpolation::kNearest, double fill = 0);

}  // namespace levin::images
