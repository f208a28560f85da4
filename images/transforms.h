#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/images/image_transform.h"

namespace levin {

/// A height and a width: in YAML one number for both, or [height, width].
class LEVIN_API ImageSides : public std::vector<std::int64_t> {
 public:
  using std::vector<std::int64_t>::vector;
  ImageSides() = default;
  ImageSides(int side) : vector{side} {}
  /// Of one number, a square.
  images::Size square() const;
};

template <>
struct LEVIN_API OptionType<ImageSides> {
  static ImageSides read(const Value& value);
  static Value write(const ImageSides& sides);
  static std::string name() { return "whole number, or [height, width]"; }
  static Value schema();
};

}  // namespace levin

/// Torchvision's transforms, with its names, options and defaults. What each does for given numbers is in functional.h.
namespace levin::images {

/// The whole image, resized: to a shorter side of `size`, or to [height, width].
class LEVIN_API Resize final : public ImageViewTransform {
 public:
  struct LEVIN_API Options {
    ImageSides size = {};
    Interpolation interpolation = Interpolation::kBilinear;
    static void declare(OptionList<Options>& options);
  };
  explicit Resize(const Options& options);
  ImageView view(images::Size size, Random& random) const override;

 private:
  Options options_;
};

/// A part at random, of a random proportion, resized. Files of large images are decoded at a reduced size.
class LEVIN_API RandomResizedCrop final : public ImageViewTransform {
 public:
  struct LEVIN_API Options {
    ImageSides size = {};
    std::vector<double> scale = {0.08, 1.0};           ///< the part's share of the image's area, from and to
    std::vector<double> ratio = {3.0 / 4.0, 4.0 / 3};  ///< its width by its height, from and to
    Interpolation interpolation = Interpolation::kBilinear;
    bool at_reduced_size = true;  ///< ImageView::at_reduced_size
    static void declare(OptionList<Options>& options);
  };
  explicit RandomResizedCrop(const Options& options);
  ImageView view(images::Size size, Random& random) const override;

 private:
  Options options_;
};

/// The middle of the image.
class LEVIN_API CenterCrop final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    ImageSides size = {};
    static void declare(OptionList<Options>& options);
  };
  explicit CenterCrop(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// A part at random, of this size, of the padded image.
class LEVIN_API RandomCrop final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    ImageSides size = {};
    std::int64_t padding = 0;  ///< pixels on each side
    double fill = 0;           ///< of them, in the image's unit
    static void declare(OptionList<Options>& options);
  };
  explicit RandomCrop(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// The options of what happens with a probability.
struct LEVIN_API ChanceOptions {
  double p = 0.5;
  static void declare(OptionList<ChanceOptions>& options);
};

class LEVIN_API RandomHorizontalFlip final : public ImageTransform {
 public:
  using Options = ChanceOptions;
  explicit RandomHorizontalFlip(const Options& options = {});
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

class LEVIN_API RandomVerticalFlip final : public ImageTransform {
 public:
  using Options = ChanceOptions;
  explicit RandomVerticalFlip(const Options& options = {});
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// Rotates, moves, scales and shears by random numbers.
class LEVIN_API RandomAffine final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    double degrees = 0;                  ///< at most, to both sides
    std::vector<double> translate = {};  ///< at most, to both sides: shares of width and height
    std::vector<double> scale = {};      ///< from and to
    double shear = 0;                    ///< degrees in x, at most, to both sides
    Interpolation interpolation = Interpolation::kNearest;
    double fill = 0;  ///< of what comes from outside, in the image's unit
    static void declare(OptionList<Options>& options);
  };
  explicit RandomAffine(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

class LEVIN_API RandomRotation final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    double degrees = 0;  ///< at most, to both sides
    Interpolation interpolation = Interpolation::kNearest;
    double fill = 0;  ///< of what comes from outside, in the image's unit
    static void declare(OptionList<Options>& options);
  };
  explicit RandomRotation(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// Changes brightness, contrast, saturation and hue, in a random order.
class LEVIN_API ColorJitter final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    double brightness = 0;  ///< the factor is from 1 - brightness, or 0, to 1 + brightness; so the next two
    double contrast = 0;
    double saturation = 0;
    double hue = 0;  ///< the shift is from -hue to hue, at most 0.5
    static void declare(OptionList<Options>& options);
  };
  explicit ColorJitter(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

class LEVIN_API Grayscale final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    std::int64_t channels = 1;  ///< 1, or 3 equal ones
    static void declare(OptionList<Options>& options);
  };
  Grayscale() : Grayscale(Options()) {}
  explicit Grayscale(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// Grey at random, in as many channels.
class LEVIN_API RandomGrayscale final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    double p = 0.1;
    static void declare(OptionList<Options>& options);
  };
  RandomGrayscale() : RandomGrayscale(Options()) {}
  explicit RandomGrayscale(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

class LEVIN_API GaussianBlur final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    ImageSides kernel_size = {};
    std::vector<double> sigma = {0.1, 2.0};  ///< from and to
    static void declare(OptionList<Options>& options);
  };
  explicit GaussianBlur(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// Gives an area at random one value: cutout.
class LEVIN_API RandomErasing final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    double p = 0.5;
    std::vector<double> scale = {0.02, 0.33};  ///< the area's share of the image's, from and to
    std::vector<double> ratio = {0.3, 3.3};    ///< its width by its height, from and to
    double value = 0;                          ///< in the image's unit
    static void declare(OptionList<Options>& options);
  };
  RandomErasing() : RandomErasing(Options()) {}
  explicit RandomErasing(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

/// Floats from 0 to 1, of which each channel's mean is subtracted, divided by its deviation. uint8 is divided by 255 first.
class LEVIN_API Normalize final : public ImageTransform {
 public:
  struct LEVIN_API Options {
    std::vector<double> mean = {};
    std::vector<double> std = {};
    static void declare(OptionList<Options>& options);
  };
  explicit Normalize(const Options& options);
  at::Tensor apply(const at::Tensor& image, Random& random) const override;

 private:
  Options options_;
};

}  // namespace levin::images
