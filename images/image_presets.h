#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/images/image_file.h"
#include "levin/images/image_transform.h"

namespace levin {

/// Transforms that are usual for a kind of image.
enum class ImagePreset : std::uint8_t { kPlain, kImagenet, kCifar };
template <>
inline constexpr std::array kChoices<ImagePreset> = {
    Choice{ImagePreset::kPlain, "plain"}, Choice{ImagePreset::kImagenet, "imagenet"}, Choice{ImagePreset::kCifar, "cifar"}};

using ImageTransforms = std::vector<std::shared_ptr<const ImageTransform>>;

/// What a data module is told of its images' transforms.
struct LEVIN_API ImagePreparation {
  ImagePreset preset = ImagePreset::kPlain;
  std::int64_t image_size = 224;
  std::int64_t channels = 3;
  std::vector<Component<ImageTransform>> train_transforms = {};  ///< empty: the preset's
  std::vector<Component<ImageTransform>> transforms = {};        ///< of other images; empty: the preset's
};

LEVIN_API ImageTransforms training_transforms(const ImagePreparation& preparation);
LEVIN_API ImageTransforms evaluation_transforms(const ImagePreparation& preparation);

/// What each data module of images lets the user say of them.
template <class O>
void declare_images(OptionList<O>& options) {
  options.add("image_size", &O::image_size, "Height and width that the preset's transforms give").min(1);
  options.add("preset", &O::preset,
              "plain: resized and cut; imagenet: training images are random parts, flipped, and all normalized; cifar: moved "
              "by 4 pixels, "
              "flipped, normalized");
  options.add("train_transforms", &O::train_transforms, "Transforms of training images, in place of the preset's");
  options.add("transforms", &O::transforms, "Transforms of other images, in place of the preset's");
  options.add("batch_transform", &O::batch_transform, "MixUp or CutMix of training batches, whose labels become probabilities");
  options.add("channels", &O::channels, "1: grey, 3: color, 4: color and alpha").min(1).max(4);
  options.add("bits", &O::bits, "8, or 16 for the whole precision of 16-bit PNG files").min(8).max(16);
  options.add("exif_orientation", &O::exif_orientation, "Turn photographs as the camera was held");
  options.add("max_pixels", &O::max_pixels, "Width times height of the largest image; more is an error, as it may be an attack")
      .min(1);
  options.add("on_error", &O::on_error,
              "A file that cannot be read: raise ends the run; skip goes on without it, and says so at the end");
  options.rule({"channels"}, [](const O& given) { return given.channels == 2 ? "channels is 1, 3 or 4" : ""; });
  options.rule({"bits"}, [](const O& given) { return given.bits == 8 || given.bits == 16 ? "" : "bits is 8 or 16"; });
}

template <class O>
ImagePreparation preparation_of(const O& options) {
  return {.preset = options.preset,
          .image_size = options.image_size,
          .channels = options.channels,
          .train_transforms = options.train_transforms,
          .transforms = options.transforms};
}

template <class O>
ImageReading reading_of(const O& options) {
  return {.channels = options.channels,
          .bits = options.bits,
          .exif_orientation = options.exif_orientation,
          .max_pixels = options.max_pixels};
}

}  // namespace levin
